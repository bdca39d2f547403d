package dflockdtcp_test

import (
	"context"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"fmt"
	"math/big"
	"net"
	"net/netip"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/kvslots/kvslots/gateway"
	"github.com/kvslots/kvslots/gateway/dflockdtcp"
	"github.com/kvslots/kvslots/gateway/internal/gatewaytest"
	"github.com/kvslots/kvslots/kvslots"
	"github.com/kvslots/kvslots/kvslots/kvslotstest"
	"github.com/kvslots/kvslots/kvslots/logtest"
	"github.com/kvslots/kvslots/natsembed"
)

// One line for a key over TCP and HTTP.
func TestOneLineWithHTTP(t *testing.T) {
	f := openFixture(t, openStore(t, kvslots.Config{}))
	c := f.dial(t)
	token := c.take(t, "l", "k", "0")
	code, body, _ := f.Do(t, "POST", "/v1/sessions", "")
	if code != 200 {
		t.Fatal(code, body)
	}
	session := strings.Split(body, `"`)[3]
	granted := make(chan string, 1)
	go func() {
		_, body, _ := f.Do(t, "POST", "/v1/locks/k", `{"acquire_timeout_s":60}`, "X-Dflockd-Session", session)
		granted <- body
	}()
	f.waiting(t, 1)
	behind := f.dial(t)
	behind.send(t, "l\nk\n60\n")
	f.waiting(t, 2)
	c.want(t, "r", "k", token, "ok")
	over := <-granted
	if !matches(over, `\{"status":"ok","token":"`+aToken+`","lease_ttl_s":33\}`) {
		t.Fatal(over)
	}
	c.want(t, "r", "k", strings.Split(over, `"`)[7], "ok") // without the session
	if got := behind.reply(t); !matches(got, "ok "+aToken+" 33") {
		t.Error(got)
	}
}

func TestDrain(t *testing.T) {
	f := openFixture(t, openStore(t, kvslots.Config{}))
	holder, waiter, idle, renewing := f.dial(t), f.dial(t), f.dial(t), f.dial(t)
	token := holder.take(t, "l", "k", "0")
	waiter.send(t, "l\nk\n60\n")
	idle.want(t, "ping", "_", "_", "ok")
	f.waiting(t, 1)
	f.Lending.Stop() // as Gateway.Drain does first
	if got := waiter.reply(t) + waiter.reply(t); got != "error_draining(closed)" {
		t.Errorf("the waiter: %q", got)
	}
	for _, request := range [][3]string{{"l", "other", "0"}, {"e", "other", ""}, {"sl", "s", "0 1"}, {"se", "s", "1"}} {
		c := f.dial(t)
		c.want(t, request[0], request[1], request[2], "error_draining")
		if got := c.reply(t); got != "(closed)" {
			t.Errorf("%s: %q", request[0], got)
		}
	}
	renewing.want(t, "n", "k", token, "ok 3[23]")
	f.stop()
	for name, c := range map[string]*client{"holder": holder, "idle": idle, "renewing": renewing} {
		if got := c.reply(t) + c.reply(t); got != "error_draining(closed)" {
			t.Errorf("%s: %q", name, got)
		}
	}
	if conn, err := net.Dial("tcp", f.addr); err == nil {
		conn.Close()
		t.Error("the listener is open")
	}
	f.nothingHeld(t)
}

func TestMaxConnections(t *testing.T) {
	for name, limit := range map[string]func(c *dflockdtcp.Config){
		"in all": func(c *dflockdtcp.Config) { c.Lending.Connections.LimitTo(gateway.Limits{Total: 2}, nil) },
		"per address": func(c *dflockdtcp.Config) {
			c.Lending.Connections.LimitTo(gateway.Limits{PerIP: 2}, func(netip.Addr) bool { return false })
		},
	} {
		t.Run(name, func(t *testing.T) {
			f := openFixture(t, openStore(t, kvslots.Config{}), limit)
			one, two := f.dial(t), f.dial(t)
			one.want(t, "ping", "_", "_", "ok")
			two.want(t, "ping", "_", "_", "ok")
			served := func() bool {
				conn, err := net.Dial("tcp", f.addr)
				if err != nil { // reset before it is returned
					return false
				}
				defer conn.Close()
				_, _ = conn.Write([]byte("ping\n\n\n"))
				return newClient(conn).reply(t) == "ok"
			}
			if served() {
				t.Error("one too many is served")
			}
			one.Close()
			eventually(t, "a connection is accepted", served)
		})
	}
	f := openFixture(t, openStore(t, kvslots.Config{}), func(c *dflockdtcp.Config) {
		c.Lending.Connections.LimitTo(gateway.Limits{PerIP: 1}, func(addr netip.Addr) bool { return addr.IsLoopback() })
	})
	for range 3 {
		f.dial(t).want(t, "ping", "_", "_", "ok") // trusted proxies
	}
}

func TestTLS(t *testing.T) {
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	kvslotstest.Must(t, err)
	template := &x509.Certificate{SerialNumber: big.NewInt(1), DNSNames: []string{"localhost"}, NotAfter: time.Now().Add(time.Hour)}
	der, err := x509.CreateCertificate(rand.Reader, template, template, key.Public(), key)
	kvslotstest.Must(t, err)
	certificate, err := x509.ParseCertificate(der)
	kvslotstest.Must(t, err)
	roots := x509.NewCertPool()
	roots.AddCert(certificate)
	f := openFixture(t, openStore(t, kvslots.Config{}), func(c *dflockdtcp.Config) {
		c.TLS = &tls.Config{Certificates: []tls.Certificate{{Certificate: [][]byte{der}, PrivateKey: key}}}
	})
	conn, err := tls.Dial("tcp", f.addr, &tls.Config{RootCAs: roots, ServerName: "localhost"})
	kvslotstest.Must(t, err)
	defer conn.Close()
	c := newClient(conn)
	c.take(t, "l", "k", "0")
	waiter, err := tls.Dial("tcp", f.addr, &tls.Config{RootCAs: roots, ServerName: "localhost"})
	kvslotstest.Must(t, err)
	defer waiter.Close()
	next := newClient(waiter)
	next.send(t, "l\nk\n60\n")
	f.waiting(t, 1)
	conn.Close()
	if got := next.reply(t); !matches(got, "ok "+aToken+" 33") {
		t.Errorf("after the end of the connection: %q", got)
	}
	next.want(t, strings.Repeat("x", 300), "", "", "error")
	plain := f.dial(t)
	plain.send(t, "ping\n_\n_\n")
	if got := plain.reply(t); strings.Contains(got, "ok") {
		t.Errorf("without TLS: %q", got)
	}
}

// Statistics fit into one line of 1 MiB, and say that more are left out.
func TestManyLocksInStatistics(t *testing.T) {
	f := openFixture(t, openStore(t, kvslots.Config{}))
	var clients [20]*client // which take locks at a time
	for i := range clients {
		clients[i] = f.dial(t)
	}
	taken := 0
	stats := func(locks int) (got string, listed int) {
		var taking sync.WaitGroup
		for i, c := range clients {
			taking.Go(func() {
				for n := taken + i; n < locks; n += len(clients) {
					c.take(t, "l", fmt.Sprintf("%d%s", n, strings.Repeat("k", 240)), "0")
				}
			})
		}
		taking.Wait()
		taken = locks
		got = clients[0].do(t, "stats", "", "")
		return got, strings.Count(got, `"key"`)
	}
	if got, listed := stats(1000); listed != 1000 || strings.Contains(got, "truncated") {
		t.Errorf("%d of 1000 locks in %d bytes", listed, len(got))
	}
	got, listed := stats(3500)
	if len(got) >= 1<<20 || len(got) < 1<<20-1<<10 || listed >= 3500 || !strings.HasSuffix(got, `}],"semaphores":[],"idle_locks":[],"idle_semaphores":[],"truncated":true}`) {
		t.Errorf("%d locks in %d bytes, ending in %q", listed, len(got), got[max(0, len(got)-100):])
	}
}

// A client that does not read its replies is disconnected.
func TestSlowReader(t *testing.T) {
	t.Parallel() // waits for seconds
	f := openFixture(t, openStore(t, kvslots.Config{}))
	holder := f.dial(t)
	for i := range 300 {
		holder.take(t, "l", fmt.Sprintf("%d%s", i, strings.Repeat("k", 240)), "0")
	}
	slow := f.dial(t)
	_ = slow.Conn.(*net.TCPConn).SetReadBuffer(1 << 10)
	slow.take(t, "l", "k", "0")
	go slow.Write([]byte(strings.Repeat("stats\n\n\n", 10_000)))
	next := f.dial(t)
	next.want(t, "l", "k", "60", "ok "+aToken+" 33")
}

// A session that has ended without its connection closes that.
func TestLostSession(t *testing.T) {
	srv := gatewaytest.StartServer(t, natsembed.Config{})
	store, _ := gatewaytest.OpenStore(t, srv.Connect, kvslots.Config{})
	ended := &sessionsOf{Store: store}
	f := openFixture(t, ended, func(c *dflockdtcp.Config) { c.IdleTimeout = time.Second })
	idle, busy := f.dial(t), f.dial(t)
	idle.take(t, "l", "a", "0 60")
	busy.take(t, "l", "b", "0 60")
	for _, session := range ended.created() {
		kvslotstest.Must(t, store.EndSession(t.Context(), session))
	}
	if got := idle.reply(t); got != "(closed)" {
		t.Errorf("an idle connection: %q", got)
	}
	busy.send(t, "l\nb\n0\n")
	if got := busy.reply(t); got != "error" && got != "(closed)" {
		t.Errorf("another: %q", got)
	}
	if got := busy.reply(t); got != "(closed)" {
		t.Errorf("and then: %q", got)
	}
}

// An idle connection keeps its session alive.
func TestIdleConnectionKeepsItsSession(t *testing.T) {
	t.Parallel() // waits for seconds
	f := openFixture(t, openStore(t, kvslots.Config{}), func(c *dflockdtcp.Config) { c.IdleTimeout = time.Second })
	c, next := f.dial(t), f.dial(t)
	began := time.Now()
	c.take(t, "l", "k", "0 4")
	next.want(t, "l", "k", "60", "ok "+aToken+" 33")
	if took := time.Since(began); took < 4*time.Second { // the session ends after 2 s without pings
		t.Errorf("the lease of 4 s ended after %v", took)
	}
}

func TestMetrics(t *testing.T) {
	f := openFixture(t, openStore(t, kvslots.Config{}))
	c := f.dial(t)
	c.want(t, "r", "k", c.take(t, "l", "k", "0"), "ok")
	c.want(t, "secret-command", "k", "", "error")
	c.want(t, "l", "k", "x", "error")
	eventually(t, "the metrics", func() bool {
		scrape := f.scrape()
		for _, line := range []string{
			`kvslots_tcp_connections 1`,
			`kvslots_tcp_request_duration_seconds_count{command="l",reply="ok"} 1`,
			`kvslots_tcp_request_duration_seconds_count{command="l",reply="error"} 1`,
			`kvslots_tcp_request_duration_seconds_count{command="r",reply="ok"} 1`,
			`kvslots_tcp_request_duration_seconds_count{command="none",reply="error"} 1`,
			`kvslots_grants_total{api="tcp"} 1`,
			`kvslots_returns_total{api="tcp"} 1`,
			`kvslots_errors_total{api="tcp",kind="bad_request"} 2`,
		} {
			if !strings.Contains(scrape, line+"\n") {
				return false
			}
		}
		return true
	})
	if log := f.logs.String(); !strings.Contains(log, `"command":"l"`) || strings.Contains(log, "secret-command") {
		t.Errorf("the log: %s", log)
	}
}

// A line that does not arrive within 23 s ends the connection, which holds nothing.
func TestLineTime(t *testing.T) {
	for name, sent := range map[string]string{"nothing": "", "a part of a line": "pi", "two lines": "ping\n_\n"} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				lending := gateway.NewLending()
				server := dflockdtcp.New(dflockdtcp.Config{Lending: lending, Turns: gateway.NewTurns(), Logger: logtest.Logger()})
				ln := &pipeListener{conns: make(chan net.Conn, 1)}
				served := make(chan error, 1)
				go func() { served <- server.Serve(ln) }()
				near, far := net.Pipe()
				ln.conns <- far
				c := newClient(near)
				time.Sleep(22 * time.Second)
				c.want(t, "ping", "_", "_", "ok")
				c.send(t, sent)
				began := time.Now()
				if got := c.reply(t); got != "error" || time.Since(began) != 23*time.Second {
					t.Errorf("%q after %v", got, time.Since(began))
				}
				if got := c.reply(t); got != "(closed)" {
					t.Errorf("and then %q", got)
				}
				near.Close()
				server.Finish(context.Background())
				if err := <-served; err != nil {
					t.Error(err)
				}
			})
		})
	}
}
