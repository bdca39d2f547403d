package dflockdtcp_test

import (
	"bufio"
	"context"
	"encoding/json"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"regexp"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/promhttp"
	"go.uber.org/goleak"

	"github.com/kvslots/kvslots/gateway"
	"github.com/kvslots/kvslots/gateway/dflockdtcp"
	"github.com/kvslots/kvslots/gateway/internal/gatewaytest"
	"github.com/kvslots/kvslots/gateway/internal/ops"
	"github.com/kvslots/kvslots/kvslots"
	"github.com/kvslots/kvslots/kvslots/kvslotstest"
	"github.com/kvslots/kvslots/kvslots/logtest"
	"github.com/kvslots/kvslots/natsembed"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(logtest.NoSecrets(m)) }

// fixture is a gateway that serves the protocol, and /v1 over HTTP.
type fixture struct {
	*gatewaytest.Gateway
	tcp  *dflockdtcp.Server
	addr string // of the protocol
	logs *logtest.Log
	stop func() // finishes the server; called at the end of the test at the latest
}

// openStore opens a store on a server of its own.
func openStore(t testing.TB, cfg kvslots.Config) *kvslots.Store {
	t.Helper()
	store, _ := gatewaytest.OpenStore(t, gatewaytest.StartServer(t, natsembed.Config{}).Connect, cfg)
	return store
}

func openFixture(t testing.TB, sessions ops.Sessions, change ...func(c *dflockdtcp.Config)) *fixture {
	t.Helper()
	turns := gateway.NewTurns()
	f := &fixture{logs: &logtest.Log{}}
	clients := func() int { return f.tcp.Clients() }
	f.Gateway = gatewaytest.Open(t, func(cfg *gateway.Config) {
		cfg.Dialects = []gateway.Dialect{gateway.NewDflockd(sessions, gateway.DflockdConfig{Lending: cfg.Lending, Turns: turns, Clients: clients, Logger: cfg.Logger})}
	})
	cfg := dflockdtcp.Config{Sessions: sessions, Lending: f.Lending, Turns: turns, Logger: f.logs.Logger()}
	for _, c := range change {
		c(&cfg)
	}
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	kvslotstest.Must(t, err)
	f.tcp, f.addr = dflockdtcp.New(cfg), ln.Addr().String()
	served := make(chan error, 1)
	go func() { served <- f.tcp.Serve(ln) }()
	f.stop = sync.OnceFunc(func() {
		logtest.Search("a scrape of the metrics", []byte(f.scrape()))
		ctx, cancel := context.WithTimeout(context.Background(), 10*time.Second)
		defer cancel()
		f.tcp.Finish(ctx)
		if err := <-served; err != nil {
			t.Error(err)
		}
	})
	t.Cleanup(f.stop)
	return f
}

func (f *fixture) scrape() string {
	registry := prometheus.NewRegistry()
	registry.MustRegister(f.tcp.Collectors()...)
	registry.MustRegister(f.Lending)
	recorder := httptest.NewRecorder()
	promhttp.HandlerFor(registry, promhttp.HandlerOpts{}).ServeHTTP(recorder, httptest.NewRequest(http.MethodGet, "/", nil))
	return recorder.Body.String()
}

// client is a connection.
type client struct {
	net.Conn
	replies *bufio.Reader
}

func (f *fixture) dial(t testing.TB) *client {
	t.Helper()
	conn, err := net.Dial("tcp", f.addr)
	kvslotstest.Must(t, err)
	t.Cleanup(func() { conn.Close() })
	return newClient(conn)
}

func newClient(conn net.Conn) *client { return &client{conn, bufio.NewReaderSize(conn, 128<<10)} }

func (c *client) send(t testing.TB, text string) {
	t.Helper()
	if _, err := io.WriteString(c, text); err != nil {
		t.Error(err)
	}
}

// reply returns the next line, or "(closed)".
func (c *client) reply(t testing.TB) string {
	t.Helper()
	line, err := c.replies.ReadString('\n')
	if err != nil {
		return line + "(closed)"
	}
	return strings.TrimSuffix(line, "\n")
}

// do sends a request, and returns the reply.
func (c *client) do(t testing.TB, command, key, args string) string {
	t.Helper()
	c.send(t, command+"\n"+key+"\n"+args+"\n")
	return c.reply(t)
}

func matches(got, want string) bool {
	return regexp.MustCompile("^(?:" + want + ")$").MatchString(got)
}

// want sends a request, and compares the reply with a regular expression.
func (c *client) want(t testing.TB, command, key, args, reply string) {
	t.Helper()
	if got := c.do(t, command, key, args); !matches(got, reply) {
		t.Errorf("%s %s %s: %q, want %q", command, key, args, got, reply)
	}
}

// take sends a request that must be granted, and returns the token.
func (c *client) take(t testing.TB, command, key, args string) string {
	t.Helper()
	words := strings.Fields(c.do(t, command, key, args))
	if len(words) != 3 || words[0] != "ok" && words[0] != "acquired" || len(words[1]) != 32 {
		t.Fatalf("%s %s %s: %q", command, key, args, words)
	}
	return words[1]
}

// eventually waits until a condition holds.
func eventually(t testing.TB, what string, holds func() bool) {
	t.Helper()
	gatewaytest.Eventually(t, what, holds)
}

// stats are the fields of the statistics of /v1 for which tests wait.
type stats struct {
	Connections int
	Locks       []struct {
		Key     string
		Owner   uint64 `json:"owner_conn_id"`
		Waiters int
	}
	Semaphores []struct{ Holders, Waiters int }
}

func (f *fixture) stats(t testing.TB) (s stats) {
	t.Helper()
	code, body, _ := f.Do(t, "GET", "/v1/stats", "")
	if err := json.Unmarshal([]byte(body), &s); err != nil || code != 200 {
		t.Errorf("statistics: %d %s", code, body)
	}
	return s
}

// inLines returns the number of places in lines.
func (f *fixture) inLines(t testing.TB) (n int) {
	t.Helper()
	s := f.stats(t)
	for _, lock := range s.Locks {
		n += lock.Waiters
	}
	for _, semaphore := range s.Semaphores {
		n += semaphore.Waiters
	}
	return n
}

// waiting waits until n sessions are in lines.
func (f *fixture) waiting(t testing.TB, n int) {
	t.Helper()
	eventually(t, "the length of the lines", func() bool { return f.inLines(t) == n })
}

// nothingHeld waits until no lock is held or waited for, and no client is connected.
func (f *fixture) nothingHeld(t testing.TB) {
	t.Helper()
	eventually(t, "nothing is held", func() bool {
		s := f.stats(t)
		return len(s.Locks)+len(s.Semaphores)+s.Connections == 0
	})
}

// failing is a store that fails to grant something, and otherwise works.
type failing struct {
	broken gatewaytest.Failing
	*kvslots.Store
}

func (f failing) Acquire(ctx context.Context, session string, r kvslots.Resource, opts ...kvslots.Option) (kvslots.Grant, error) {
	return f.broken.Acquire(ctx, session, r, opts...)
}

func (f failing) Enqueue(ctx context.Context, session string, r kvslots.Resource, opts ...kvslots.Option) (kvslots.Grant, bool, error) {
	return f.broken.Enqueue(ctx, session, r, opts...)
}

func waitLimits(total int) ops.Limits { return ops.Limits{Total: total} }

// sessionsOf is a store that remembers the sessions that it creates.
type sessionsOf struct {
	*kvslots.Store
	mu  sync.Mutex
	ids []string
}

func (s *sessionsOf) CreateSession(ctx context.Context, opts ...kvslots.Option) (string, time.Duration, error) {
	id, idle, err := s.Store.CreateSession(ctx, opts...)
	s.mu.Lock()
	defer s.mu.Unlock()
	s.ids = append(s.ids, id)
	return id, idle, err
}

func (s *sessionsOf) created() []string {
	s.mu.Lock()
	defer s.mu.Unlock()
	return slices.Clone(s.ids)
}

// pipeListener is a listener whose connections are pipes.
type pipeListener struct {
	conns chan net.Conn
	once  sync.Once
}

func (l *pipeListener) Accept() (net.Conn, error) {
	conn, ok := <-l.conns
	if !ok {
		return nil, net.ErrClosed
	}
	return conn, nil
}

func (l *pipeListener) Close() error {
	l.once.Do(func() { close(l.conns) })
	return nil
}

func (l *pipeListener) Addr() net.Addr { return &net.TCPAddr{} }
