package gateway

import (
	"cmp"
	"fmt"
	"io"
	"net/http"
	"strings"
	"text/tabwriter"

	"github.com/kvslots/kvslots/gateway/internal/jsonhttp"
)

type greeting struct {
	Name        string   `json:"name"`
	Version     string   `json:"version"`
	Description string   `json:"description"` // the path of the OpenAPI document
	APIs        []choice `json:"apis"`
}

type choice struct {
	At  string `json:"at"`
	For string `json:"for"`
	Use string `json:"use"`
}

// choices are the same in every gateway: they say what kvslots has, not what is switched on.
var choices = []choice{
	{"/l", "curl, or any HTTP client", "pools of slots under a secret UUID"},
	{"/v1", "a service that names its locks", "locks and semaphores by name, held by a session that pings"},
	{"/rpc", "functions to be called under a lock", "envelopes of Forrst"},
	{"NATS", "a program with a NATS connection", "the same requests on subjects kvslots.…"},
}

// PageServer is a Dialect with a page for browsers.
type PageServer interface {
	// ServePage answers GET / of a browser.
	ServePage(w http.ResponseWriter, r *http.Request)
}

// PagePrefix is the path below which the files of a PageServer are. Clients may read them
// without a token, since they contain nothing of the store.
const PagePrefix = "/page/"

// greet answers GET / with JSON if the client accepts that by name, with the page if it accepts
// HTML by name and there is a page, and otherwise in text.
func (g *Gateway) greet(w http.ResponseWriter, r *http.Request) {
	accept := strings.Join(r.Header.Values("Accept"), ",")
	if strings.Contains(accept, "text/html") && !strings.Contains(accept, "application/json") {
		for _, dialect := range g.opened.Load().Dialects {
			if server, ok := dialect.(PageServer); ok {
				server.ServePage(w, r)
				return
			}
		}
	}
	hello := greeting{"kvslots", cmp.Or(g.cfg.Version, "unversioned"), "/v1/openapi.json", choices}
	if strings.Contains(accept, "application/json") {
		_ = jsonhttp.Answer(w, http.StatusOK, hello)
		return
	}
	w.Header().Set("Content-Type", "text/plain; charset=utf-8")
	_ = hello.print(w)
}

func (hello greeting) print(w io.Writer) error {
	fmt.Fprintf(w, "%s %s: a distributed semaphore. All requests are described at %s.\n\n", hello.Name, hello.Version, hello.Description)
	table := tabwriter.NewWriter(w, 0, 0, 2, ' ', 0)
	for _, c := range hello.APIs {
		fmt.Fprintf(table, "%s\t%s\t%s\n", c.At, c.For, c.Use)
	}
	return table.Flush()
}
