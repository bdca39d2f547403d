package forrst_test

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"io"
	"iter"
	"net/http"
	"os"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/nats-io/nats.go"
	"go.uber.org/goleak"

	"github.com/kvslots/kvslots/gateway"
	"github.com/kvslots/kvslots/gateway/forrst"
	"github.com/kvslots/kvslots/gateway/internal/gatewaytest"
	"github.com/kvslots/kvslots/gateway/internal/ops"
	"github.com/kvslots/kvslots/kvslots"
	"github.com/kvslots/kvslots/kvslots/kvslotstest"
	"github.com/kvslots/kvslots/kvslots/logtest"
	"github.com/kvslots/kvslots/kvslots/wire"
	"github.com/kvslots/kvslots/natsembed"
)

func TestMain(m *testing.M) {
	if url := os.Getenv(asService); url != "" {
		serveFunctions(url)
		return
	}
	goleak.VerifyTestMain(logtest.NoSecrets(m))
}

// site is an embedded server with a listener for function services.
type site struct{ server *natsembed.Server }

func newSite(t testing.TB) *site {
	t.Helper()
	return &site{gatewaytest.StartServer(t, natsembed.Config{
		Addr: "127.0.0.1:0", Functions: natsembed.Functions{Prefix: forrst.DefaultPrefix},
	})}
}

// function serves a function on NATS until the test ends.
func (s *site) function(t testing.TB, name string, handler nats.MsgHandler) {
	t.Helper()
	nc, err := nats.Connect(s.server.ClientURL())
	kvslotstest.Must(t, err)
	t.Cleanup(nc.Close)
	_, err = nc.Subscribe(forrst.DefaultPrefix+"."+name, handler)
	kvslotstest.Must(t, errors.Join(err, nc.Flush()))
}

// testGateway is a gateway at a site, and a client.
type testGateway struct {
	*gatewaytest.Gateway
	url    string
	store  *kvslots.Store
	server *forrst.Server
	stop   func()
}

func (s *site) connect(t testing.TB, connect func(...nats.Option) (*nats.Conn, error), opts ...nats.Option) *nats.Conn {
	t.Helper()
	nc, err := connect(opts...)
	kvslotstest.Must(t, err)
	t.Cleanup(nc.Close)
	return nc
}

// startGateway starts a gateway, which stops when the test ends.
func (s *site) startGateway(t testing.TB, cfg forrst.Config) *testGateway {
	t.Helper()
	store, closeStore := gatewaytest.OpenStore(t, s.server.Connect, kvslots.Config{})
	d := &testGateway{store: store}
	cfg.NATS = s.connect(t, s.server.ConnectService, nats.ReconnectBufSize(-1), nats.CustomInboxPrefix("_KVSLOTS.x"))
	if cfg.Functions == nil {
		cfg.Functions = &forrst.Functions{}
	}
	d.Gateway = gatewaytest.Open(t, func(g *gateway.Config) {
		cfg.Lending = g.Lending
		d.server = forrst.New(store, cfg)
		g.Store, g.Dialects, g.Tokens, g.Logger = store, []gateway.Dialect{d.server}, cfg.Tokens, logtest.Logger()
	})
	d.url = "http://" + d.Addr + "/rpc"
	d.stop = sync.OnceFunc(func() {
		d.Stop()
		ctx, done := context.WithTimeout(context.Background(), 20*time.Second)
		defer done()
		if err := d.server.Close(ctx); err != nil {
			t.Error(err)
		}
		closeStore()
	})
	t.Cleanup(d.stop)
	return d
}

// startSite returns a site with one gateway.
func startSite(t testing.TB, functions *forrst.Functions) (*site, *testGateway) {
	t.Helper()
	s := newSite(t)
	return s, s.startGateway(t, forrst.Config{Functions: functions})
}

// answer is the answer to a call.
type answer struct {
	code   int
	header http.Header
	body   []byte
}

// post is safe for concurrent use.
func (d *testGateway) post(t testing.TB, body string) answer {
	resp, err := d.Client.Post(d.url, "application/json", strings.NewReader(body))
	if err != nil {
		t.Error(err)
		return answer{}
	}
	defer resp.Body.Close()
	text, err := io.ReadAll(resp.Body)
	if err != nil {
		t.Error(err)
	}
	return answer{resp.StatusCode, resp.Header, text}
}

// ask has the server answer an envelope that came with the value of an Authorization header.
func ask(t *testing.T, server *forrst.Server, body, authorization string) (code int, failure string, answer []byte) {
	t.Helper()
	reply := server.Call(t.Context(), t.Context(), &ops.Call{
		Operation: ops.CallFunction, Request: asked{}, Arrived: time.Now(),
		Params: wire.Params{Envelope: &wire.Envelope{Body: []byte(body), Authorization: authorization}},
	})
	answer, _ = reply.Body.(json.RawMessage)
	return reply.Code, reply.Text, answer
}

// asked is the request of ask, from a client that is not known.
type asked struct{ ops.Request }

func (asked) Remote() string            { return "" }
func (asked) Origins() iter.Seq[string] { return slices.Values([]string{"test"}) }
func (asked) Trace() ops.Trace          { return ops.Trace{} }
func (asked) HungUp() bool              { return false }

// envelope returns a request for a function, with options of the lock unless options is
// "".
func envelope(function, arguments, options string) string {
	text := `{"protocol":{"name":"forrst","version":"0.1.0"},"id":"r","call":{"function":"` + function + `"`
	if arguments != "" {
		text += `,"arguments":` + arguments
	}
	text += `}`
	if options != "" {
		text += `,"extensions":[{"urn":"urn:forrst:ext:atomicLock","options":` + options + `}]`
	}
	return text + `}`
}

// call posts an envelope, and fails unless the answer has the given status and contains
// text.
func (d *testGateway) call(t testing.TB, function, arguments, options string, code int, text string) answer {
	a := d.post(t, envelope(function, arguments, options))
	if a.code != code || !bytes.Contains(a.body, []byte(text)) {
		t.Errorf("%s %s %s\n got %d %s\nwant %d %s", function, arguments, options, a.code, a.body, code, text)
	}
	return a
}

const (
	release      = "urn:cline:forrst:ext:atomic-lock:fn:release"
	forceRelease = "urn:cline:forrst:ext:atomic-lock:fn:force-release"
	status       = "urn:cline:forrst:ext:atomic-lock:fn:status"
)

// lock is the part of an answer about the lock.
type lock struct {
	Owner    string `json:"owner"`
	Fence    uint64 `json:"fence"`
	Expired  bool   `json:"lock_expired"`
	Released bool   `json:"lock_released"`
	Expires  string `json:"expires_at"`
}

func (a answer) lock(t testing.TB) lock {
	t.Helper()
	var e struct {
		Extensions []struct{ Data lock } `json:"extensions"`
	}
	if err := json.Unmarshal(a.body, &e); err != nil || len(e.Extensions) != 1 {
		t.Fatalf("%s: %v", a.body, err)
	}
	return e.Extensions[0].Data
}

// wantFree waits until a lock is free, and fails if that takes as long as its ttl.
func (d *testGateway) wantFree(t testing.TB, key string) {
	t.Helper()
	d.call(t, status, `{"key":"`+key+`"}`, "", 200, `"locked":false`)
}

// functions returns a registry of functions.
func functions(all map[string]forrst.Func) *forrst.Functions {
	f := &forrst.Functions{}
	for name, function := range all {
		f.Handle(name, function)
	}
	return f
}
