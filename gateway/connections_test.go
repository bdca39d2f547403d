package gateway

import (
	"bufio"
	"crypto/tls"
	"errors"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"net/netip"
	"os"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/kvslots/kvslots/kvslots/kvslotstest"
	"github.com/kvslots/kvslots/kvslots/logtest"
)

// serveLimited serves until the test ends.
func serveLimited(t *testing.T, change func(cfg *Config)) (g *Gateway, addr string) {
	t.Helper()
	g = newGuardedGateway(change)
	addr, served := serve(t, g)
	t.Cleanup(func() {
		if err := g.Drain(t.Context()); err != nil {
			t.Error(err)
		}
		if err := <-served; err != nil {
			t.Error(err)
		}
	})
	return g, addr
}

func dial(t *testing.T, addr string) net.Conn {
	t.Helper()
	conn, err := net.Dial("tcp", addr)
	kvslotstest.Must(t, err)
	t.Cleanup(func() { conn.Close() })
	return conn
}

// request sends a request and returns the status and the name of the refusal.
func request(t *testing.T, conn net.Conn) (int, string) {
	t.Helper()
	kvslotstest.Must(t, kvslotstest.Err(io.WriteString(conn, "GET /t/1 HTTP/1.1\r\nHost: localhost\r\n\r\n")))
	resp, err := http.ReadResponse(bufio.NewReader(conn), nil)
	kvslotstest.Must(t, err)
	defer resp.Body.Close()
	kvslotstest.Must(t, kvslotstest.Err(io.ReadAll(resp.Body)))
	if retry := resp.Header.Get("Retry-After"); (retry == "1") != (resp.StatusCode != 200) ||
		resp.Header.Get("Cache-Control") != "no-store" || resp.Header.Get("X-Request-Id") == "" {
		t.Errorf("%d with headers %v", resp.StatusCode, resp.Header)
	}
	return resp.StatusCode, resp.Header.Get("Kvslots-Error")
}

func (c *connections) await(t *testing.T, n int) {
	t.Helper()
	for c.count() != n {
		time.Sleep(time.Millisecond)
	}
}

// refused returns how many connections the limits have refused.
func (c *connections) refused() int64 {
	return c.all.Refused.Load() + c.all.RefusedPerIP.Load()
}

func TestMaxConnections(t *testing.T) {
	for _, c := range []struct {
		name   string
		change func(cfg *Config)
		code   int // of the third; 200: it is served
		reason string
	}{
		{"in all", func(cfg *Config) { cfg.MaxConnections = 2 }, 503, "max_connections"},
		{"per address", func(cfg *Config) { cfg.MaxConnectionsPerIP = 2 }, 429, "max_connections_per_ip"},
		{"of a proxy", func(cfg *Config) {
			cfg.MaxConnectionsPerIP, cfg.TrustedProxies = 2, []netip.Prefix{netip.MustParsePrefix("127.0.0.0/8")}
		}, 200, ""},
		{"none", func(*Config) {}, 200, ""},
	} {
		t.Run(c.name, func(t *testing.T) {
			g, addr := serveLimited(t, c.change)
			first, second := dial(t, addr), dial(t, addr)
			for _, conn := range []net.Conn{first, second} {
				if code, _ := request(t, conn); code != 200 {
					t.Errorf("a connection within the limit is answered %d", code)
				}
			}
			if code, reason := request(t, dial(t, addr)); code != c.code || reason != c.reason {
				t.Errorf("got %d %s, want %d %s", code, reason, c.code, c.reason)
			}
			if c.code == 200 {
				return
			}
			if refused := g.connections.refused(); refused != 1 {
				t.Errorf("%d refusals are counted", refused)
			}
			if metrics := ask(g, "GET", "/metrics").Body.String(); !strings.Contains(metrics, `kvslots_limit_refusals_total{limit="`+c.reason+`"} 1`) ||
				!strings.Contains(metrics, "kvslots_http_connections 2") {
				t.Errorf("not in the metrics:\n%s", metrics)
			}
			first.Close()
			g.connections.await(t, 1)
			if code, _ := request(t, dial(t, addr)); code != 200 {
				t.Errorf("after another has left: %d", code)
			}
		})
	}
}

// A proxy is found by its own address, also where clients are told apart by their networks.
func TestProxyWithinClientsNetwork(t *testing.T) {
	g := newGuardedGateway(func(cfg *Config) { cfg.TrustedProxies = []netip.Prefix{netip.MustParsePrefix("2001:db8::5/128")} })
	for addr, isClient := range map[string]bool{"2001:db8::5": false, "2001:db8::6": true} {
		if got := g.connections.all.ClientAt(&net.TCPAddr{IP: net.ParseIP(addr)}).IsValid(); got != isClient {
			t.Errorf("%s is taken for a client: %v", addr, got)
		}
	}
}

// A flood of connections is refused, mostly without an answer, and does not keep the others
// from being served.
func TestConnectionsBeyondTheLimitAreClosed(t *testing.T) {
	g, addr := serveLimited(t, func(cfg *Config) { cfg.MaxConnections = 1 })
	rates := g.connections.refuser.rates
	rates.mu.Lock()
	rates.now = (&stoppedClock{time.Now()}).now
	rates.mu.Unlock()
	served := dial(t, addr)
	request(t, served)
	var flood sync.WaitGroup
	var answers atomic.Int64
	for range 200 {
		flood.Go(func() {
			conn, err := net.Dial("tcp", addr)
			if err != nil {
				return // was reset at once
			}
			defer conn.Close()
			_, _ = io.WriteString(conn, "GET / HTTP/1.1\r\n")
			if answer, _ := io.ReadAll(conn); len(answer) > 0 {
				answers.Add(1)
			}
		})
	}
	flood.Wait()
	if code, _ := request(t, served); code != 200 {
		t.Errorf("the connection within the limit is answered %d", code)
	}
	if refused := g.connections.refused(); refused != 200 || answers.Load() > refusalsPerIP {
		t.Errorf("%d refusals are counted, and %d were answered", refused, answers.Load())
	}
}

// A supervisor would end a process whose probes are refused.
func TestProbesBeyondTheLimit(t *testing.T) {
	certified := httptest.NewUnstartedServer(nil)
	certified.StartTLS()
	certified.Close()
	for name, encrypted := range map[string]*tls.Config{"plain": nil, "TLS": certified.TLS} {
		t.Run(name, func(t *testing.T) {
			_, addr := serveLimited(t, func(cfg *Config) { cfg.MaxConnections, cfg.TLS = 8, encrypted })
			for range 8 {
				dial(t, addr)
			}
			url, client := "http://"+addr, &http.Client{Transport: &http.Transport{}}
			if encrypted != nil {
				url, client = "https://"+addr, certified.Client()
			}
			for path, want := range map[string]int{"/health": 200, "/ready": 200, "/t/1": 503} {
				answer, err := client.Get(url + path)
				kvslotstest.Must(t, err)
				if answer.Body.Close(); answer.StatusCode != want || !answer.Close {
					t.Errorf("%s: %d, closed %t", path, answer.StatusCode, answer.Close)
				}
			}
		})
	}
}

// A connection beyond the limit is read for a moment only.
func TestRefusedConnectionsEnd(t *testing.T) {
	g, addr := serveLimited(t, func(cfg *Config) { cfg.MaxConnections = 1 })
	dial(t, addr)
	g.connections.await(t, 1)
	conn := dial(t, addr)
	io.WriteString(conn, "GET /health HTTP/1.1\r\n")
	if _, err := io.ReadAll(conn); err != nil {
		t.Error(err)
	}
}

// A header of 16 KiB is read, and one that is longer refused.
func TestHeaderLimit(t *testing.T) {
	_, addr := serveLimited(t, func(*Config) {})
	const begin, end = "GET /t/1 HTTP/1.1\r\nHost: localhost\r\nX: ", "\r\n\r\n"
	for size, want := range map[int]int{maxHeader: 200, maxHeader + 1: 431} {
		conn := dial(t, addr)
		io.WriteString(conn, begin+strings.Repeat("x", size-len(begin)-len(end))+end)
		resp, err := http.ReadResponse(bufio.NewReader(conn), nil)
		kvslotstest.Must(t, err)
		if resp.Body.Close(); resp.StatusCode != want {
			t.Errorf("%d bytes: %d, want %d", size, resp.StatusCode, want)
		}
	}
}

// starved is a listener whose first Accepts fail as when too many files are open.
type starved struct {
	net.Listener
	failures int
}

func (l *starved) Accept() (net.Conn, error) {
	if l.failures--; l.failures >= 0 {
		return nil, &net.OpError{Op: "accept", Err: os.NewSyscallError("accept4", syscall.EMFILE)}
	}
	return l.Listener.Accept()
}

// An operator learns that no connection can be accepted, once; then connections are
// accepted again.
func TestTooManyOpenFilesAreLogged(t *testing.T) {
	var logged logtest.Log
	g := newGuardedGateway(func(cfg *Config) { cfg.Logger = logged.Logger() })
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	kvslotstest.Must(t, err)
	served := make(chan error, 1)
	go func() { served <- g.Serve(&starved{ln, 4}) }()
	if code, _ := request(t, dial(t, ln.Addr().String())); code != 200 {
		t.Error(code)
	}
	if err := errors.Join(g.Drain(t.Context()), <-served); err != nil {
		t.Error(err)
	}
	if got := logged.String(); strings.Count(got, `"level":"warn"`) != 1 || !strings.Contains(got, "too many open files; retrying in 5ms") {
		t.Errorf("logged\n%s", got)
	}
}
