package library_test

import (
	"bytes"
	"context"
	"io"
	"net"
	"net/http"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/rs/zerolog"
	"go.uber.org/goleak"

	"github.com/kvslots/kvslots/gateway"
	"github.com/kvslots/kvslots/gateway/internal/ops"
	"github.com/kvslots/kvslots/gateway/library"
	"github.com/kvslots/kvslots/gateway/openapitest"
	"github.com/kvslots/kvslots/kvslots"
	"github.com/kvslots/kvslots/natsembed"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// door is a gateway with the dialect on a port of its own, and a client.
type door struct {
	addr    string
	lending *gateway.Lending
	logs    *logs
	client  *http.Client
}

// openStore opens a store on an embedded server; both end with the test.
func openStore(t *testing.T) *kvslots.Store {
	t.Helper()
	srv, err := natsembed.Start(t.Context(), natsembed.Config{DataDir: t.TempDir(), Sync: natsembed.SyncInterval})
	if err != nil {
		t.Fatal(err)
	}
	nc, err := srv.Connect()
	if err != nil {
		t.Fatal(err)
	}
	store, err := kvslots.Open(t.Context(), nc, kvslots.Config{MaxTTL: time.Hour, MaxWait: time.Minute})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := store.Close(context.Background()); err != nil {
			t.Error(err)
		}
		nc.Close()
		if err := srv.Close(); err != nil {
			t.Error(err)
		}
	})
	return store
}

// alwaysReady stands in for a store that /ready asks.
type alwaysReady struct{}

func (alwaysReady) Ready() error { return nil }

// openDoor serves pools until the test ends.
func openDoor(t *testing.T, pools ops.Pools) *door {
	t.Helper()
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	lines := &logs{}
	log := zerolog.New(lines)
	lending := gateway.NewLending()
	gw := gateway.New(gateway.Config{
		Store:    alwaysReady{},
		Sync:     "interval",
		Lending:  lending,
		Dialects: []gateway.Dialect{library.New(pools, lending, log)},
		Logger:   log,
	})
	served := make(chan error, 1)
	go func() { served <- gw.Serve(ln) }()

	d := &door{addr: ln.Addr().String(), lending: lending, logs: lines, client: &http.Client{Transport: openapitest.Transport(t, &http.Transport{})}}
	t.Cleanup(func() {
		d.client.CloseIdleConnections()
		if err := gw.Drain(context.Background()); err != nil {
			t.Error(err)
		}
		if err := <-served; err != nil {
			t.Error(err)
		}
	})
	return d
}

// do sends a request and gives the answer's status, body and header. It may be
// called from any goroutine: a failure to send is an error, and status 0.
func (d *door) do(t *testing.T, method, path, body string) (int, string, http.Header) {
	t.Helper()
	r, err := http.NewRequestWithContext(t.Context(), method, "http://"+d.addr+path, strings.NewReader(body))
	if err != nil {
		t.Error(err)
		return 0, "", nil
	}
	resp, err := d.client.Do(r)
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

// want sends a request and compares status and body.
func (d *door) want(t *testing.T, method, path, body string, code int, answer string) {
	t.Helper()
	gotCode, got, header := d.do(t, method, path, body)
	if gotCode != code || got != answer {
		t.Errorf("%s %s %s\n got %d %s\nwant %d %s", method, path, body, gotCode, got, code, answer)
	}
	if kind := header.Get("Content-Type"); kind != "application/json" {
		t.Errorf("%s %s: Content-Type %q", method, path, kind)
	}
	if cache := header.Get("Cache-Control"); cache != "no-store" {
		t.Errorf("%s %s: Cache-Control %q", method, path, cache)
	}
}

// logs collects lines from several goroutines.
type logs struct {
	mu    sync.Mutex
	lines bytes.Buffer
}

func (l *logs) Write(line []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.lines.Write(line)
}

func (l *logs) String() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.lines.String()
}

// eventually waits for a condition.
func eventually(t *testing.T, what string, condition func() bool) {
	t.Helper()
	for deadline := time.Now().Add(10 * time.Second); !condition(); {
		if time.Now().After(deadline) {
			t.Fatalf("never happened: %s", what)
		}
		time.Sleep(time.Millisecond)
	}
}
