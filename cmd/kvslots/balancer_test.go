package main

import (
	"context"
	"net/http"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/kvslots/kvslots/kvslots/kvslotstest"
)

// balancer sends requests to gateways in turn, as a load balancer: to those whose /ready
// was 200 when it was last asked. If there is none, it tries all the same.
type balancer struct {
	http.Transport

	mu       sync.Mutex
	gateways []*balanced
	turn     int
}

// balanced is a gateway of a balancer.
type balanced struct {
	host  string
	ready bool
	gone  bool // see withdraw
	busy  int  // requests without an answer
}

func newBalancer(t *testing.T, urls []string) *balancer {
	t.Helper()
	b := &balancer{Transport: http.Transport{MaxIdleConnsPerHost: borrowersEach}}
	ctx, stop := context.WithCancel(context.Background())
	var probing sync.WaitGroup
	for _, url := range urls {
		g := &balanced{host: strings.TrimPrefix(url, "http://")}
		b.gateways = append(b.gateways, g)
		probing.Go(func() { b.probe(ctx, g) })
	}
	t.Cleanup(func() {
		stop()
		probing.Wait()
		b.CloseIdleConnections()
	})
	return b
}

func (b *balancer) probe(ctx context.Context, g *balanced) {
	for tick := time.Tick(50 * time.Millisecond); ; {
		r, err := http.NewRequestWithContext(ctx, http.MethodGet, "http://"+g.host+"/ready", nil)
		if err != nil {
			return
		}
		resp, err := b.Transport.RoundTrip(r)
		if err == nil {
			_ = resp.Body.Close()
		}
		b.change(func() bool { g.ready = err == nil && resp.StatusCode == http.StatusOK; return true })
		select {
		case <-tick:
		case <-ctx.Done():
			return
		}
	}
}

func (b *balancer) change(do func() bool) bool {
	b.mu.Lock()
	defer b.mu.Unlock()
	return do()
}

// awaitReady waits until each gateway is ready, also those that were withdrawn.
func (b *balancer) awaitReady(t *testing.T) {
	t.Helper()
	for _, g := range b.gateways {
		b.change(func() bool { g.gone = false; return true })
		kvslotstest.Eventually(t, "a gateway is ready", func() bool { return b.change(func() bool { return g.ready }) })
	}
}

// withdraw waits until a gateway is not ready, sends it no request from then on, and waits
// for the answers to the others.
func (b *balancer) withdraw(t *testing.T, g *balanced) {
	t.Helper()
	kvslotstest.Eventually(t, "a gateway that drains is not ready", func() bool {
		return b.change(func() bool { g.gone = !g.ready; return g.gone })
	})
	kvslotstest.Eventually(t, "a gateway that drains has answered", func() bool { return b.change(func() bool { return g.busy == 0 }) })
}

// RoundTrip implements http.RoundTripper.
func (b *balancer) RoundTrip(r *http.Request) (*http.Response, error) {
	var to *balanced
	b.change(func() bool {
		b.turn++
		for i := range b.gateways {
			next := b.gateways[(b.turn+i)%len(b.gateways)]
			if !next.gone && (to == nil || !to.ready && next.ready) {
				to = next
			}
		}
		to.busy++
		return true
	})
	r = r.Clone(r.Context())
	r.Host, r.URL.Host = to.host, to.host
	resp, err := b.Transport.RoundTrip(r)
	b.change(func() bool {
		to.busy--
		to.ready = to.ready && (err != nil || resp.StatusCode != http.StatusServiceUnavailable)
		return true
	})
	return resp, err
}
