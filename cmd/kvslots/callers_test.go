package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/nats-io/nats.go"
	"golang.org/x/time/rate"

	"github.com/kvslots/kvslots/kvslots/subjects"
	"github.com/kvslots/kvslots/kvslots/wire"
)

// caller asks gateways for operations on pools.
type caller interface {
	call(ctx context.Context, operation, pool, fields string) (answer, error)
	transport() string
}

func (*balancer) transport() string   { return "HTTP" }
func (*natsCaller) transport() string { return "NATS" }

type answer struct {
	code       int
	retryAfter string
	body       string
}

// What a client meets of a gateway that restarts, beside answers to requests.
const (
	metDraining = "503 with Retry-After"
	metAbsent   = "nothing listens"
	metLost     = "connection lost before the answer"
)

// errLost is the error of a request whose connection ended before its answer.
var errLost = errors.New("connection lost")

func outcome(got answer, err error) string {
	switch {
	case errors.Is(err, syscall.ECONNREFUSED), errors.Is(err, nats.ErrNoResponders), errors.Is(err, nats.ErrReconnectBufExceeded):
		return metAbsent
	case err != nil:
		return metLost
	case got.code == http.StatusServiceUnavailable && got.retryAfter != "":
		return metDraining
	}
	return strconv.Itoa(got.code)
}

// balancer sends requests to gateways in turn, as a load balancer: to those whose /ready
// was 200 when it was last asked. If there is none, it tries all the same.
type balancer struct {
	client *http.Client

	mu       sync.Mutex
	gateways []*balanced
	turn     int
}

// balanced is a gateway of a balancer.
type balanced struct {
	url   string
	ready bool
	gone  bool // see withdraw
	busy  int  // requests without an answer
}

const readyInterval = 50 * time.Millisecond

func newBalancer(t *testing.T, urls []string) *balancer {
	t.Helper()
	b := &balancer{client: &http.Client{Transport: &http.Transport{MaxIdleConnsPerHost: borrowersHTTP}}}
	ctx, stop := context.WithCancel(context.Background())
	var probing sync.WaitGroup
	for _, url := range urls {
		g := &balanced{url: url}
		b.gateways = append(b.gateways, g)
		probing.Go(func() { b.probe(ctx, g) })
	}
	t.Cleanup(func() {
		stop()
		probing.Wait()
		b.client.CloseIdleConnections()
	})
	return b
}

func (b *balancer) probe(ctx context.Context, g *balanced) {
	pace := rate.NewLimiter(rate.Every(readyInterval), 1)
	for pace.Wait(ctx) == nil {
		got, err := b.ask(ctx, "GET", g.url+"/ready", "")
		b.change(func() { g.ready = err == nil && got.code == http.StatusOK })
	}
}

func (b *balancer) change(do func()) {
	b.mu.Lock()
	defer b.mu.Unlock()
	do()
}

// await waits until reached, which is called with the lock, returns true.
func (b *balancer) await(t *testing.T, what string, reached func() bool) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	pace := rate.NewLimiter(rate.Every(readyInterval), 1)
	for done := false; !done; b.change(func() { done = reached() }) {
		if pace.Wait(ctx) != nil {
			t.Fatal(what)
		}
	}
}

// awaitReady waits until each gateway is ready, also those that were withdrawn.
func (b *balancer) awaitReady(t *testing.T) {
	t.Helper()
	for _, g := range b.gateways {
		b.change(func() { g.gone = false })
		b.await(t, "a gateway is not ready", func() bool { return g.ready })
	}
}

// withdraw waits until a gateway is not ready, sends it no request from then on, and waits
// for the answers to the others.
func (b *balancer) withdraw(t *testing.T, g *balanced) {
	t.Helper()
	b.await(t, "a gateway that drains is ready", func() bool {
		g.gone = !g.ready
		return g.gone
	})
	b.await(t, "a gateway that drains does not answer", func() bool { return g.busy == 0 })
}

func (b *balancer) call(ctx context.Context, operation, pool, fields string) (answer, error) {
	g := b.pick()
	got, err := b.ask(ctx, "POST", fmt.Sprintf("%s/l/%s/%s", g.url, pool, operation), "{"+fields+"}")
	b.change(func() {
		g.busy--
		g.ready = g.ready && got.code != http.StatusServiceUnavailable
	})
	return got, err
}

// pick counts the request as busy.
func (b *balancer) pick() (g *balanced) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.turn++
	for i := range b.gateways {
		next := b.gateways[(b.turn+i)%len(b.gateways)]
		if !next.gone && (g == nil || !g.ready && next.ready) {
			g = next
		}
	}
	g.busy++
	return g
}

func (b *balancer) ask(ctx context.Context, method, url, body string) (answer, error) {
	r, err := http.NewRequestWithContext(ctx, method, url, strings.NewReader(body))
	if err != nil {
		return answer{}, err
	}
	resp, err := b.client.Do(r)
	if err != nil {
		return answer{}, err
	}
	defer resp.Body.Close()
	text, err := io.ReadAll(resp.Body)
	return answer{resp.StatusCode, resp.Header.Get(wire.RetryAfterHeader), string(text)}, err
}

// natsCaller asks over a connection of its own, which comes back as soon as it can.
type natsCaller struct {
	nc *nats.Conn

	mu   sync.Mutex
	lost chan struct{} // closed, and made anew, when the connection ends
}

func newNATSCaller(t *testing.T, url string) *natsCaller {
	t.Helper()
	c := &natsCaller{lost: make(chan struct{})}
	c.nc = connectNATS(t, url,
		nats.MaxReconnects(-1), nats.ReconnectWait(retryPace),
		nats.ReconnectBufSize(-1), // no request is kept for later
		nats.DisconnectErrHandler(func(*nats.Conn, error) { c.disconnected() }))
	return c
}

func (c *natsCaller) disconnected() {
	c.mu.Lock()
	defer c.mu.Unlock()
	close(c.lost)
	c.lost = make(chan struct{})
}

func (c *natsCaller) call(ctx context.Context, operation, pool, fields string) (answer, error) {
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	c.mu.Lock()
	lost := c.lost
	c.mu.Unlock()
	go func() {
		select {
		case <-lost:
			cancel(errLost)
		case <-ctx.Done():
		}
	}()
	m, err := c.nc.RequestWithContext(ctx, subjects.Service+"."+operation, fmt.Appendf(nil, `{"id":%q,%s}`, pool, fields))
	if err != nil {
		return answer{}, err
	}
	code := http.StatusOK
	if text := m.Header.Get("Nats-Service-Error-Code"); text != "" {
		if code, err = strconv.Atoi(text); err != nil {
			return answer{}, err
		}
	}
	return answer{code, m.Header.Get(wire.RetryAfterHeader), string(m.Data)}, nil
}
