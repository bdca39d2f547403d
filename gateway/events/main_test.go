package events_test

import (
	"bufio"
	"context"
	"encoding/json"
	"net/http"
	"strconv"
	"strings"
	"testing"
	"time"

	"go.uber.org/goleak"

	"github.com/kvslots/kvslots/gateway"
	"github.com/kvslots/kvslots/gateway/events"
	"github.com/kvslots/kvslots/gateway/internal/gatewaytest"
	"github.com/kvslots/kvslots/gateway/openapitest"
	"github.com/kvslots/kvslots/kvslots"
	"github.com/kvslots/kvslots/kvslots/kvslotstest"
	"github.com/kvslots/kvslots/kvslots/logtest"
	"github.com/kvslots/kvslots/kvslots/wire"
	"github.com/kvslots/kvslots/natsembed"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(logtest.NoSecrets(m)) }

// site is a gateway and its store.
type site struct {
	*gatewaytest.Gateway
	store   *kvslots.Store
	streams *events.Dialect
}

// openSites opens gateways on one server.
func openSites(t *testing.T, n int, cfg events.Config) []*site {
	t.Helper()
	srv := gatewaytest.StartServer(t, natsembed.Config{})
	sites := make([]*site, n)
	for i := range sites {
		store, _ := gatewaytest.OpenStore(t, srv.Connect, kvslots.Config{})
		s := &site{store: store}
		s.Gateway = gatewaytest.Open(t, func(c *gateway.Config) {
			cfg.Lending, cfg.Logger = c.Lending, c.Logger
			s.streams = events.New(store, cfg)
			c.Dialects = []gateway.Dialect{
				gateway.NewLibrary(store, c.Lending, c.Logger), gateway.NewDflockd(store, gateway.DflockdConfig{Lending: c.Lending, Turns: gateway.NewTurns()}), s.streams,
			}
			c.Collectors = s.streams.Collectors()
			c.Tokens = gateway.NewTokens()
		})
		sites[i] = s
	}
	return sites
}

// reader reads a stream of events.
type reader struct {
	t     testing.TB
	lines *bufio.Scanner
	close func()
	last  string // the last id
	retry string
}

// read opens a stream, which is closed at the end of the test at the latest.
func (s *site) read(t testing.TB, path string, header ...string) *reader {
	t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), 5*time.Minute)
	r, err := http.NewRequestWithContext(ctx, http.MethodGet, "http://"+s.Addr+path, nil)
	kvslotstest.Must(t, err)
	for i := 0; i+1 < len(header); i += 2 {
		r.Header.Set(header[i], header[i+1])
	}
	transport := &http.Transport{DisableKeepAlives: true}
	resp, err := transport.RoundTrip(r)
	if err != nil {
		cancel()
		t.Fatal(err)
	}
	closeAll := func() {
		cancel()
		resp.Body.Close()
		transport.CloseIdleConnections()
	}
	t.Cleanup(closeAll)
	if kind := resp.Header.Get("Content-Type"); resp.StatusCode != http.StatusOK || kind != "text/event-stream" || resp.Header.Get("Cache-Control") != "no-store" {
		t.Fatalf("%d %s %v", resp.StatusCode, kind, resp.Header)
	}
	lines := bufio.NewScanner(resp.Body)
	return &reader{t: t, lines: lines, close: closeAll}
}

// next returns the next event, or false at the end of the stream. withID says whether it has an id.
func (r *reader) next() (e wire.Event, withID, ok bool) {
	r.t.Helper()
	for r.lines.Scan() {
		field, value, _ := strings.Cut(r.lines.Text(), ": ")
		switch field {
		case "retry":
			r.retry = value
		case "id":
			r.last, withID = value, true
		case "data":
			openapitest.CheckSchema(r.t, "Event", []byte(value))
			if err := json.Unmarshal([]byte(value), &e); err != nil {
				r.t.Fatal(err)
			}
			if withID && strconv.FormatUint(e.ID, 10) != r.last {
				r.t.Fatalf("id %s of %+v", r.last, e)
			}
			return e, withID, true
		case "":
			withID = false
		}
	}
	return e, false, false
}

// want reads the next event, which must be of a type.
func (r *reader) want(kind kvslots.EventType) wire.Event {
	r.t.Helper()
	e, _, ok := r.next()
	if !ok || e.Type != string(kind) {
		r.t.Fatalf("got %+v %v, want %s", e, ok, kind)
	}
	return e
}
