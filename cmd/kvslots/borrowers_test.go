package main

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/google/uuid"
	"github.com/nats-io/nats.go"

	"github.com/kvslots/kvslots/kvslots"
	"github.com/kvslots/kvslots/kvslots/client"
	"github.com/kvslots/kvslots/kvslots/client/natsclient"
	"github.com/kvslots/kvslots/kvslots/kvslotstest"
	"github.com/kvslots/kvslots/kvslots/wire"
)

const (
	longPool = "11111111-2222-4333-8444-666666666666"

	borrowersEach  = 12 // over HTTP, and over NATS
	contendedSlots = 6  // fewer than clients, so that most of them wait
)

// borrowers are clients over HTTP and NATS. Each holds a lease of longPool, and borrows
// and returns slots of pool meanwhile. None of their calls fails.
type borrowers struct {
	balancer    *balancer
	connections []*nats.Conn
	renewals    atomic.Int64
	stopped     atomic.Bool
	running     sync.WaitGroup

	mu      sync.Mutex
	down    bool           // the only gateway is being restarted
	back    time.Time      // when it was there again
	granted int            // leases of pool
	renewed int            // leases of longPool, in all rounds
	held    map[place]bool // the positions that a client has
	fences  map[place]uint64
	drains  map[string]int // by transport: refusals of a gateway that drains
	wrong   []string
}

// place is a position of a pool.
type place struct {
	pool     uuid.UUID
	position int
}

// newBorrowers registers the pools, and starts the clients.
func newBorrowers(t *testing.T, p *program, natsURL string, urls ...string) *borrowers {
	t.Helper()
	p.want(t, "PUT", "/l/"+pool, fmt.Sprintf(`{"count":%d}`, contendedSlots), 200, "")
	p.want(t, "PUT", "/l/"+longPool, fmt.Sprintf(`{"count":%d}`, 2*borrowersEach), 200, "")
	b := &borrowers{balancer: newBalancer(t, urls), held: map[place]bool{}, fences: map[place]uint64{}, drains: map[string]int{}}
	t.Cleanup(b.stop)
	config := func(transport string) client.Config {
		return client.Config{HTTP: &http.Client{Transport: b.balancer}, Retrying: func(err error) { b.met(transport, err) }}
	}
	for range borrowersEach {
		over, err := client.Dial(t.Context(), "http://balancer", config("HTTP"))
		kvslotstest.Must(t, err)
		nc := connectNATS(t, natsURL, nats.MaxReconnects(-1), nats.ReconnectWait(20*time.Millisecond), nats.ReconnectBufSize(-1)) // no request is kept for later
		b.connections = append(b.connections, nc)
		for _, c := range []*client.Client{over, natsclient.New(nc, config("NATS"))} {
			b.running.Go(func() { b.client(t.Context(), c) })
		}
	}
	return b
}

// stop lets each client end its work.
func (b *borrowers) stop() {
	b.stopped.Store(true)
	b.running.Wait()
}

// met checks what a request met before it is repeated: only a gateway that drains, or none while it is down.
func (b *borrowers) met(transport string, err error) {
	refused, ok := errors.AsType[*wire.Refusal](err)
	draining := ok && refused.Status == http.StatusServiceUnavailable && refused.RetryAfter > 0
	b.mu.Lock()
	defer b.mu.Unlock()
	if draining {
		b.drains[transport]++
	} else if !b.down && time.Since(b.back) > time.Second {
		b.wrong = append(b.wrong, fmt.Sprintf("over %s: %v", transport, err))
	}
}

func (b *borrowers) client(ctx context.Context, c *client.Client) {
	long, err := b.borrow(ctx, c, uuid.MustParse(longPool))
	for renewed := int64(0); err == nil && !b.stopped.Load(); {
		if due := b.renewals.Load(); due > renewed {
			b.renew(ctx, c, long)
			renewed = due
		}
		var lease *kvslots.Lease
		if lease, err = b.borrow(ctx, c, uuid.MustParse(pool)); err == nil {
			b.giveBack(ctx, c, uuid.MustParse(pool), lease)
		}
	}
	if err != nil {
		b.fail("a borrow: %v", err)
		return
	}
	b.giveBack(ctx, c, uuid.MustParse(longPool), long)
}

func (b *borrowers) borrow(ctx context.Context, c *client.Client, pool uuid.UUID) (*kvslots.Lease, error) {
	lease, err := c.Borrow(ctx, pool, kvslots.WithFixedTTL(time.Hour), kvslots.WithWait(5*time.Minute))
	if err != nil {
		return nil, err
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	at := place{pool, lease.Position()}
	if b.held[at] {
		b.wrong = append(b.wrong, fmt.Sprintf("position %d was lent twice", at.position))
	}
	if lease.Fence() <= b.fences[at] {
		b.wrong = append(b.wrong, fmt.Sprintf("fence %d came after %d", lease.Fence(), b.fences[at]))
	}
	b.held[at], b.fences[at] = true, lease.Fence()
	if pool != uuid.MustParse(longPool) {
		b.granted++
	}
	return lease, nil
}

// renew checks that a lease is still what it was.
func (b *borrowers) renew(ctx context.Context, c *client.Client, long *kvslots.Lease) {
	now, err := c.Renew(ctx, uuid.MustParse(longPool), long.ID(), time.Hour)
	for ; err != nil && client.Temporary(err) && ctx.Err() == nil; now, err = c.Renew(ctx, uuid.MustParse(longPool), long.ID(), time.Hour) {
		b.met("a renewal", err)
		time.Sleep(20 * time.Millisecond)
	}
	if err != nil || now.ID() != long.ID() || now.Position() != long.Position() || now.Fence() != long.Fence() {
		b.fail("the renewal of fence %d: %+v, %v", long.Fence(), now, err)
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	b.renewed++
}

func (b *borrowers) giveBack(ctx context.Context, c *client.Client, pool uuid.UUID, lease *kvslots.Lease) {
	b.mu.Lock()
	delete(b.held, place{pool, lease.Position()})
	b.mu.Unlock()
	ok, err := c.Return(ctx, pool, lease.ID())
	for repeated := false; !ok || err != nil; ok, err = c.Return(ctx, pool, lease.ID()) {
		if err == nil && repeated {
			return // an attempt whose answer was lost has returned it
		}
		if err == nil || !client.Temporary(err) {
			b.fail("the return of fence %d: %t, %v", lease.Fence(), ok, err)
			return
		}
		repeated = true
	}
}

func (b *borrowers) fail(format string, args ...any) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.wrong = append(b.wrong, fmt.Sprintf(format, args...))
}

// awaitGrants waits for n more leases.
func (b *borrowers) awaitGrants(t *testing.T, n int) {
	t.Helper()
	b.mu.Lock()
	target := b.granted + n
	b.mu.Unlock()
	b.await(t, func() bool { return b.granted >= target && len(b.held) >= 2*borrowersEach })
}

// setDown says whether the only gateway is down from now on.
func (b *borrowers) setDown(down bool) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.down = down; !down {
		b.back = time.Now()
	}
}

// connected waits until each client is connected to a gateway that has restarted.
func (b *borrowers) connected(t *testing.T) {
	t.Helper()
	b.balancer.awaitReady(t)
	for _, nc := range b.connections {
		waitFor(t, nc.IsConnected)
	}
}

// wantRenewed has each client renew its long lease.
func (b *borrowers) wantRenewed(t *testing.T) {
	t.Helper()
	rounds := int(b.renewals.Add(1))
	b.await(t, func() bool { return b.renewed == rounds*2*borrowersEach })
}

func (b *borrowers) await(t *testing.T, reached func() bool) {
	t.Helper()
	waitFor(t, func() bool {
		b.mu.Lock()
		defer b.mu.Unlock()
		if len(b.wrong) > 0 {
			t.Fatalf("%d errors, the first ones: %q", len(b.wrong), b.wrong[:min(len(b.wrong), 5)])
		}
		return reached()
	})
}

// finish checks that all leases still exist at the end.
func (b *borrowers) finish(t *testing.T, p *program) {
	t.Helper()
	b.stop()
	for _, id := range []string{pool, longPool} {
		p.want(t, "GET", "/l/"+id, "", 200, `"in_use":0`)
	}
	if len(b.wrong) > 0 {
		t.Errorf("%d errors, the first ones: %q", len(b.wrong), b.wrong[:min(len(b.wrong), 5)])
	}
	if b.drains["HTTP"] == 0 || b.drains["NATS"] == 0 {
		t.Errorf("clients over a transport have met no gateway that drains: %v", b.drains)
	}
	t.Logf("%d leases, %d renewals of long ones; refused by gateways that drain: %v", b.granted, b.renewed, b.drains)
}
