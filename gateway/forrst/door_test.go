package forrst_test

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"io"
	"net"
	"net/http"
	"os"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/rs/zerolog"
	"go.uber.org/goleak"

	"github.com/kvslots/kvslots/gateway"
	"github.com/kvslots/kvslots/gateway/forrst"
	"github.com/kvslots/kvslots/gateway/openapitest"
	"github.com/kvslots/kvslots/kvslots"
	"github.com/kvslots/kvslots/natsembed"
)

func TestMain(m *testing.M) {
	if url := os.Getenv(asService); url != "" {
		serveFunctions(url)
		return
	}
	goleak.VerifyTestMain(m)
}

// site is an embedded server with a listener for function services.
type site struct{ server *natsembed.Server }

func newSite(t testing.TB) *site {
	t.Helper()
	server, err := natsembed.Start(t.Context(), natsembed.Config{
		DataDir: t.TempDir(), Sync: natsembed.SyncInterval, Addr: "127.0.0.1:0",
		Functions: natsembed.Functions{Prefix: forrst.DefaultPrefix},
	})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := server.Close(); err != nil {
			t.Error(err)
		}
	})
	return &site{server}
}

// function serves a function on NATS until the test ends.
func (s *site) function(t testing.TB, name string, handler nats.MsgHandler) {
	t.Helper()
	nc, err := nats.Connect(s.server.ClientURL())
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(nc.Close)
	_, err = nc.Subscribe(forrst.DefaultPrefix+"."+name, handler)
	if err = errors.Join(err, nc.Flush()); err != nil {
		t.Fatal(err)
	}
}

// door is a gateway at a site, and a client.
type door struct {
	url     string
	addr    string
	store   *kvslots.Store
	server  *forrst.Server
	lending *gateway.Lending
	client  *http.Client
	stop    func()
}

func (s *site) connect(t testing.TB, connect func(...nats.Option) (*nats.Conn, error), opts ...nats.Option) *nats.Conn {
	t.Helper()
	nc, err := connect(opts...)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(nc.Close)
	return nc
}

// open starts a gateway; it ends with the test.
func (s *site) open(t testing.TB, cfg forrst.Config) *door {
	t.Helper()
	store, err := kvslots.Open(t.Context(), s.connect(t, s.server.Connect), kvslots.Config{MaxWait: cfg.MaxWait})
	if err != nil {
		t.Fatal(err)
	}
	d := &door{store: store, lending: gateway.NewLending()}
	cfg.Lending = d.lending
	cfg.NATS = s.connect(t, s.server.ConnectService, nats.ReconnectBufSize(-1), nats.CustomInboxPrefix("_KVSLOTS_FN"))
	if cfg.Functions == nil {
		cfg.Functions = &forrst.Functions{}
	}
	d.server = forrst.New(store, cfg)
	g := gateway.New(gateway.Config{
		Store: store, Lending: d.lending, Dialects: []gateway.Dialect{d.server}, AuthToken: cfg.AuthToken, Logger: zerolog.Nop(),
	})
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	served := make(chan error, 1)
	go func() { served <- g.Serve(ln) }()
	d.addr = ln.Addr().String()
	d.url = "http://" + d.addr + "/rpc"
	d.client = &http.Client{Transport: openapitest.Transport(t, &http.Transport{MaxIdleConnsPerHost: 64})}
	d.stop = sync.OnceFunc(func() {
		hurried, cancel := context.WithCancel(context.Background())
		cancel()
		ctx, done := context.WithTimeout(context.Background(), 20*time.Second)
		defer done()
		err := errors.Join(g.Drain(hurried), <-served, d.server.Close(ctx), store.Close(ctx))
		d.client.CloseIdleConnections()
		if err != nil {
			t.Error(err)
		}
	})
	t.Cleanup(d.stop)
	return d
}

// start is a site with one gateway.
func start(t testing.TB, functions *forrst.Functions) (*site, *door) {
	t.Helper()
	s := newSite(t)
	return s, s.open(t, forrst.Config{Functions: functions})
}

// answer is what a call was answered with.
type answer struct {
	code   int
	header http.Header
	body   []byte
}

// post may be called from any goroutine.
func (d *door) post(t testing.TB, body string) answer {
	resp, err := d.client.Post(d.url, "application/json", strings.NewReader(body))
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

// envelope is a request for a function, with these options of the lock if any.
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

// call posts an envelope, and wants a status and a text in the answer.
func (d *door) call(t testing.TB, function, arguments, options string, code int, text string) answer {
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

// lock is what an answer says of the lock.
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
func (d *door) wantFree(t testing.TB, key string) {
	t.Helper()
	d.call(t, status, `{"key":"`+key+`"}`, "", 200, `"locked":false`)
}

func eventually(t testing.TB, what string, is func() bool) {
	t.Helper()
	for deadline := time.Now().Add(20 * time.Second); !is(); time.Sleep(time.Millisecond) {
		if time.Now().After(deadline) {
			t.Fatalf("never: %s", what)
		}
	}
}

// functions are functions of this process, by name.
func functions(all map[string]forrst.Func) *forrst.Functions {
	f := &forrst.Functions{}
	for name, function := range all {
		f.Handle(name, function)
	}
	return f
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
