package gatewaytest

import (
	"context"
	"io"
	"net"
	"net/http"
	"strings"
	"sync"
	"testing"

	"github.com/rs/zerolog"

	"github.com/kvslots/kvslots/gateway"
	"github.com/kvslots/kvslots/gateway/openapitest"
)

// Door is a gateway on a port of its own, and a client, whose exchanges with it are
// held against openapi.json.
type Door struct {
	Addr    string
	Lending *gateway.Lending
	Logs    *Logs
	Client  *http.Client
	Stop    func() // drains the gateway; called when the test ends, if not before
}

// Open serves until the test ends. configure changes what the gateway is made of; it
// finds Lending and Logger in the Config, for the dialects that it adds.
func Open(t testing.TB, configure func(cfg *gateway.Config)) *Door {
	t.Helper()
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	d := &Door{Addr: ln.Addr().String(), Lending: gateway.NewLending(), Logs: &Logs{}}
	cfg := gateway.Config{Store: Ready{}, Sync: "interval", Lending: d.Lending, Logger: zerolog.New(d.Logs)}
	configure(&cfg)
	gw := gateway.New(cfg)
	served := make(chan error, 1)
	go func() { served <- gw.Serve(ln) }()
	d.Client = &http.Client{Transport: openapitest.Transport(t, &http.Transport{MaxIdleConnsPerHost: 64})}
	d.Stop = sync.OnceFunc(func() {
		d.Client.CloseIdleConnections()
		if err := gw.Drain(context.Background()); err != nil {
			t.Error(err)
		}
		if err := <-served; err != nil {
			t.Error(err)
		}
	})
	t.Cleanup(d.Stop)
	return d
}

// Do sends a request with these headers, names and values in turn, and returns the
// answer's status, body and header. It may be called from any goroutine: a failure to
// send is an error of the test, and status 0.
func (d *Door) Do(t testing.TB, method, path, body string, header ...string) (int, string, http.Header) {
	t.Helper()
	r, err := http.NewRequestWithContext(t.Context(), method, "http://"+d.Addr+path, strings.NewReader(body))
	if err != nil {
		t.Error(err)
		return 0, "", nil
	}
	for i := 0; i+1 < len(header); i += 2 {
		r.Header.Set(header[i], header[i+1])
	}
	resp, err := d.Client.Do(r)
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

// Dial opens a connection for a client of the test's own.
func (d *Door) Dial(t testing.TB) net.Conn {
	t.Helper()
	conn, err := net.Dial("tcp", d.Addr)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { conn.Close() })
	return conn
}
