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
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/nats-io/nats.go"

	"github.com/kvslots/kvslots/kvslots/wire"
	"github.com/kvslots/kvslots/kvslots/wire/subjects"
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
	urls   []string
	ready  []atomic.Bool
	turn   atomic.Int64
}

const readyInterval = 50 * time.Millisecond

func newBalancer(t *testing.T, urls []string) *balancer {
	t.Helper()
	b := &balancer{
		client: &http.Client{Transport: &http.Transport{MaxIdleConnsPerHost: borrowersHTTP}},
		urls:   urls, ready: make([]atomic.Bool, len(urls)),
	}
	ctx, stop := context.WithCancel(context.Background())
	var probing sync.WaitGroup
	for i := range urls {
		probing.Go(func() { b.probe(ctx, i) })
	}
	t.Cleanup(func() {
		stop()
		probing.Wait()
		b.client.CloseIdleConnections()
	})
	return b
}

func (b *balancer) probe(ctx context.Context, i int) {
	beat := time.NewTicker(readyInterval)
	defer beat.Stop()
	for ctx.Err() == nil {
		got, err := b.ask(ctx, "GET", b.urls[i]+"/ready", "")
		b.ready[i].Store(err == nil && got.code == http.StatusOK)
		select {
		case <-ctx.Done():
		case <-beat.C:
		}
	}
}

// awaitReady waits until each gateway has been found ready.
func (b *balancer) awaitReady(t *testing.T) {
	t.Helper()
	for i := range b.ready {
		for deadline := time.Now().Add(time.Minute); !b.ready[i].Load(); time.Sleep(readyInterval) {
			if time.Now().After(deadline) {
				t.Fatalf("gateway %d is not ready", i)
			}
		}
	}
}

func (b *balancer) call(ctx context.Context, operation, pool, fields string) (answer, error) {
	i := b.pick()
	got, err := b.ask(ctx, "POST", fmt.Sprintf("%s/l/%s/%s", b.urls[i], pool, operation), "{"+fields+"}")
	if got.code == http.StatusServiceUnavailable {
		b.ready[i].Store(false)
	}
	return got, err
}

func (b *balancer) pick() int {
	first := int(b.turn.Add(1))
	for i := range b.urls {
		if at := (first + i) % len(b.urls); b.ready[at].Load() {
			return at
		}
	}
	return first % len(b.urls)
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
