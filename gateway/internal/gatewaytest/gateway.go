package gatewaytest

import (
	"context"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"

	"github.com/kvslots/kvslots/gateway"
	"github.com/kvslots/kvslots/gateway/openapitest"
	"github.com/kvslots/kvslots/kvslots/kvslotstest"
	"github.com/kvslots/kvslots/kvslots/logtest"
)

// Gateway is a gateway that listens on a port, and a client that checks its answers
// against openapi.json.
type Gateway struct {
	Addr    string
	Lending *gateway.Lending
	Logs    *logtest.Log
	Client  *http.Client
	Stop    func() // drains the gateway; called at the end of the test at the latest
}

// Open serves until the test ends. configure completes the Config, whose Lending and
// Logger are set for the dialects that it adds.
func Open(t testing.TB, configure func(cfg *gateway.Config)) *Gateway {
	t.Helper()
	g, resume := OpenPaused(t, configure)
	resume()
	return g
}

// OpenPaused is like Open, but the gateway accepts no connection before resume is called. The
// kernel takes connections and what clients send meanwhile, as from a process that is stopped.
func OpenPaused(t testing.TB, configure func(cfg *gateway.Config)) (g *Gateway, resume func()) {
	t.Helper()
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	kvslotstest.Must(t, err)
	g = &Gateway{Addr: ln.Addr().String(), Lending: gateway.NewLending(), Logs: &logtest.Log{}}
	cfg := gateway.Config{Store: Ready{}, Sync: "interval", Lending: g.Lending, Logger: g.Logs.Logger()}
	configure(&cfg)
	gw := gateway.New(cfg)
	served := make(chan error, 1)
	resume = sync.OnceFunc(func() { go func() { served <- gw.Serve(ln) }() })
	g.Client = &http.Client{Transport: openapitest.Transport(t, &http.Transport{MaxIdleConnsPerHost: 64})}
	g.Stop = sync.OnceFunc(func() {
		resume()
		scrape := httptest.NewRecorder()
		gw.Handler().ServeHTTP(scrape, httptest.NewRequest(http.MethodGet, "http://"+g.Addr+"/metrics", nil))
		logtest.Search("a scrape of the metrics", scrape.Body.Bytes())
		g.Client.CloseIdleConnections()
		if err := gw.Drain(context.Background()); err != nil {
			t.Error(err)
		}
		if err := <-served; err != nil {
			t.Error(err)
		}
	})
	t.Cleanup(g.Stop)
	return g, resume
}

// Do sends a request, and returns the status, body and header of the answer. header
// contains names and values in turn. Do may be called from any goroutine: if it cannot
// send the request, it reports an error to t and returns status 0.
func (g *Gateway) Do(t testing.TB, method, path, body string, header ...string) (int, string, http.Header) {
	t.Helper()
	r, err := http.NewRequestWithContext(t.Context(), method, "http://"+g.Addr+path, strings.NewReader(body))
	if err != nil {
		t.Error(err)
		return 0, "", nil
	}
	for i := 0; i+1 < len(header); i += 2 {
		r.Header.Set(header[i], header[i+1])
	}
	resp, err := g.Client.Do(r)
	if err != nil {
		t.Error(err)
		return 0, "", nil
	}
	defer resp.Body.Close()
	answer, err := io.ReadAll(resp.Body)
	if err != nil {
		t.Error(err)
	}
	return resp.StatusCode, string(answer), resp.Header
}

func (g *Gateway) Dial(t testing.TB) net.Conn {
	t.Helper()
	conn, err := net.Dial("tcp", g.Addr)
	kvslotstest.Must(t, err)
	t.Cleanup(func() { conn.Close() })
	return conn
}
