package gateway

import (
	"bufio"
	"context"
	"errors"
	"io"
	"net"
	"net/http"
	"net/netip"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/kvslots/kvslots/kvslots/kvslotstest"
)

// pipeListener accepts connections within the process, from addresses of a test's choice.
type pipeListener struct {
	accepted chan net.Conn
	closing  sync.Once
	closed   chan struct{}
}

func newPipeListener() *pipeListener {
	return &pipeListener{accepted: make(chan net.Conn), closed: make(chan struct{})}
}

func (l *pipeListener) Accept() (net.Conn, error) {
	select {
	case conn := <-l.accepted:
		return conn, nil
	case <-l.closed:
		return nil, net.ErrClosed
	}
}

func (l *pipeListener) Close() error {
	l.closing.Do(func() { close(l.closed) })
	return nil
}

func (l *pipeListener) Addr() net.Addr { return &net.TCPAddr{} }

// pipeConn is a connection whose other end has an address.
type pipeConn struct {
	net.Conn
	client net.Addr
}

func (c pipeConn) RemoteAddr() net.Addr { return c.client }

// pipeClient is the client's end of a connection.
type pipeClient struct {
	net.Conn
	answers *bufio.Reader
}

func (l *pipeListener) dial(addr string) *pipeClient {
	ours, theirs := net.Pipe()
	l.accepted <- pipeConn{theirs, net.TCPAddrFromAddrPort(netip.MustParseAddrPort(addr))}
	return &pipeClient{ours, bufio.NewReader(ours)}
}

// ask sends a request, and returns the status of its answer and how long that took.
func (c *pipeClient) ask(t *testing.T) (code int, took time.Duration) {
	t.Helper()
	return c.send(t, "GET /t/1 HTTP/1.1\r\nHost: localhost\r\n\r\n")
}

func (c *pipeClient) send(t *testing.T, request string) (code int, took time.Duration) {
	t.Helper()
	began := time.Now()
	go io.WriteString(c, request)
	answer, err := http.ReadResponse(c.answers, nil)
	kvslotstest.Must(t, err)
	defer answer.Body.Close()
	_, _ = io.Copy(io.Discard, answer.Body)
	return answer.StatusCode, time.Since(began)
}

// inFlood serves with a rate limit, and calls f with the connection of a client that floods
// the gateway, just after a request that makes the connection rest.
func inFlood(t *testing.T, change func(cfg *Config), f func(g *Gateway, ln *pipeListener, flood *pipeClient)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		g := newGuardedGateway(func(cfg *Config) {
			cfg.RateLimit, cfg.RateBurst = 0.001, 3
			change(cfg)
		})
		ln, served := newPipeListener(), make(chan error, 1)
		go func() { served <- g.Serve(ln) }()
		flood := ln.dial("192.0.2.1:1001")
		defer flood.Close()
		for i, want := range []int{200, 200, 200, 429, 429, 429, 429} {
			if code, took := flood.ask(t); code != want || took != 0 {
				t.Errorf("request %d is answered %d after %s, want %d at once", i, code, took, want)
			}
		}
		f(g, ln, flood)
		if err := g.Drain(t.Context()); err != nil {
			t.Error(err)
		}
		if err := <-served; err != nil {
			t.Error(err)
		}
	})
}

// A client that goes on after as many refusals as the rate limit allows requests gets one
// answer per second and connection. Others are served at once.
func TestFloodIsThrottled(t *testing.T) {
	inFlood(t, func(*Config) {}, func(_ *Gateway, ln *pipeListener, flood *pipeClient) {
		for range 3 {
			if code, took := flood.ask(t); code != 429 || took != throttleTime {
				t.Errorf("the flood is answered %d after %s", code, took)
			}
		}
		other := ln.dial("192.0.2.2:1001")
		defer other.Close()
		if code, took := other.ask(t); code != 200 || took != 0 {
			t.Errorf("another client is answered %d after %s", code, took)
		}
	})
}

// So does a client whose requests are all refused for their Host or Origin, or that sends
// preflight requests.
func TestFloodOfPagesIsThrottled(t *testing.T) {
	for _, c := range []struct {
		name, request string
		codes         []int // of requests before the connection rests
	}{
		{"Host", "GET /t/1 HTTP/1.1\r\nHost: rebound.example.com\r\n\r\n", []int{403, 403, 403, 429, 429, 429, 429}},
		{"Host, of a probe", "GET /health HTTP/1.1\r\nHost: rebound.example.com\r\n\r\n", []int{403, 403, 403, 429, 429, 429, 429}},
		{"Origin", "POST /t/1 HTTP/1.1\r\nHost: localhost\r\nOrigin: https://evil.example.com\r\nContent-Length: 0\r\n\r\n", []int{403, 403, 403, 429, 429, 429, 429}},
		{"preflight", "OPTIONS /t/1 HTTP/1.1\r\nHost: localhost\r\nOrigin: " + page + "\r\nAccess-Control-Request-Method: GET\r\n\r\n", []int{204, 204, 204, 204, 204, 204, 204}},
	} {
		t.Run(c.name, func(t *testing.T) {
			guarded := func(cfg *Config) { cfg.Hosts, cfg.CORSOrigins = []string{}, []string{page} }
			inFlood(t, guarded, func(_ *Gateway, ln *pipeListener, _ *pipeClient) {
				pages := ln.dial("192.0.2.2:1001")
				defer pages.Close()
				for i, want := range c.codes {
					if code, took := pages.send(t, c.request); code != want || took != 0 {
						t.Errorf("request %d is answered %d after %s, want %d at once", i, code, took, want)
					}
				}
				last := c.codes[len(c.codes)-1]
				for range 3 {
					if code, took := pages.send(t, c.request); code != last || took != throttleTime {
						t.Errorf("the flood is answered %d after %s", code, took)
					}
				}
				user := ln.dial("192.0.2.2:1002")
				defer user.Close()
				if code, took := user.ask(t); code != 200 || took != 0 {
					t.Errorf("the user whose browser has the page is answered %d after %s", code, took)
				}
			})
		})
	}
}

// Closing a connection that rests does not make room for another one of the same client.
func TestThrottledPlaceStaysTaken(t *testing.T) {
	one := func(cfg *Config) { cfg.MaxConnectionsPerIP = 1 }
	inFlood(t, one, func(g *Gateway, ln *pipeListener, flood *pipeClient) {
		flood.Close()
		synctest.Wait()
		next := ln.dial("192.0.2.1:1002")
		if code, _ := next.ask(t); code != 429 || g.connections.refused() != 1 {
			t.Errorf("while the first connection rests, a second one is answered %d", code)
		}
		next.Close()
		time.Sleep(throttleTime)
		synctest.Wait()
		last := ln.dial("192.0.2.1:1003")
		defer last.Close()
		if last.ask(t); g.connections.refused() != 1 {
			t.Error("a connection is refused after the rest")
		}
	})
}

// The connection of a proxy, which carries the requests of other clients, does not rest.
func TestProxyIsNotThrottled(t *testing.T) {
	proxy := func(cfg *Config) { cfg.TrustedProxies = []netip.Prefix{netip.MustParsePrefix("192.0.2.1/32")} }
	inFlood(t, proxy, func(_ *Gateway, _ *pipeListener, flood *pipeClient) {
		if code, took := flood.ask(t); code != 429 || took != 0 {
			t.Errorf("answered %d after %s", code, took)
		}
	})
}

// A rest does not delay the end of the gateway.
func TestDrainEndsRest(t *testing.T) {
	inFlood(t, func(*Config) {}, func(g *Gateway, _ *pipeListener, flood *pipeClient) {
		synctest.Wait() // the connection rests
		began := time.Now()
		if err := g.Drain(context.Background()); err != nil {
			t.Error(err)
		}
		if _, err := flood.answers.ReadByte(); err != io.EOF || !time.Now().Equal(began) {
			t.Errorf("%v after %s", err, time.Since(began))
		}
	})
}

// A client that sends a header byte by byte is cut off in time.
func TestSlowHeaderIsCutOff(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		g := newGuardedGateway(func(*Config) {})
		ln, served := newPipeListener(), make(chan error, 1)
		go func() { served <- g.Serve(ln) }()
		client, began := ln.dial("192.0.2.1:1001"), time.Now()
		defer client.Close()
		go io.Copy(io.Discard, client)
		for err := error(nil); err == nil; time.Sleep(500 * time.Millisecond) {
			_, err = io.WriteString(client, "G")
		}
		if took := time.Since(began); took < headerTimeout || took > headerTimeout+time.Second {
			t.Errorf("cut off after %s", took)
		}
		if err := errors.Join(g.Drain(t.Context()), <-served); err != nil {
			t.Error(err)
		}
	})
}
