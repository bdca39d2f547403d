package main

import (
	"context"
	"encoding/json"
	"fmt"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"golang.org/x/time/rate"
)

const (
	longPool = "11111111-2222-4333-8444-666666666666"

	borrowersHTTP, borrowersNATS = 12, 12
	contendedSlots               = 6 // fewer than clients, so that most of them wait

	// retryPace is how often a client repeats a request, which is more often than
	// Retry-After asks for.
	retryPace = 20 * time.Millisecond
)

// borrowers are clients over HTTP and NATS. Each holds a lease of longPool, and borrows
// and returns slots of pool meanwhile.
type borrowers struct {
	balancer *balancer
	nats     []*natsCaller
	down     atomic.Bool // while the only gateway is restarted
	renewals atomic.Int64
	stopped  atomic.Bool
	running  sync.WaitGroup

	mu      sync.Mutex
	changed chan struct{}    // closed, and made anew, by each change
	granted int              // leases of pool
	renewed int              // leases of longPool, in all rounds
	held    map[place]string // the lease
	fences  map[place]uint64 // the last one
	met     map[string]int   // what clients were answered
	wrong   []string
}

// place is a position of a pool.
type place struct {
	pool     string
	position int
}

type grantedLease struct {
	Lease    string
	Position int
	Fence    uint64
}

// newBorrowers registers the pools, and starts the clients.
func newBorrowers(t *testing.T, p *program, natsURL string, urls ...string) *borrowers {
	t.Helper()
	p.want(t, "PUT", "/l/"+pool, fmt.Sprintf(`{"count":%d}`, contendedSlots), 200, "")
	p.want(t, "PUT", "/l/"+longPool, fmt.Sprintf(`{"count":%d}`, borrowersHTTP+borrowersNATS), 200, "")
	b := &borrowers{
		balancer: newBalancer(t, urls), changed: make(chan struct{}),
		held: map[place]string{}, fences: map[place]uint64{}, met: map[string]int{},
	}
	t.Cleanup(b.stop)
	for range borrowersHTTP {
		b.running.Go(func() { b.client(t.Context(), b.balancer) })
	}
	for range borrowersNATS {
		caller := newNATSCaller(t, natsURL)
		b.nats = append(b.nats, caller)
		b.running.Go(func() { b.client(t.Context(), caller) })
	}
	return b
}

// stop lets each client end its work.
func (b *borrowers) stop() {
	b.stopped.Store(true)
	b.running.Wait()
}

func (b *borrowers) client(ctx context.Context, via caller) {
	long, ok := b.borrow(ctx, via, longPool, 3600)
	if !ok {
		b.fail("no long lease")
		return
	}
	for renewed := int64(0); !b.stopped.Load() && ctx.Err() == nil; {
		if due := b.renewals.Load(); due > renewed {
			b.renew(ctx, via, long)
			renewed = due
		}
		if lease, ok := b.borrow(ctx, via, pool, 600); ok {
			b.giveBack(ctx, via, pool, lease)
		}
	}
	b.giveBack(ctx, via, longPool, long)
}

func (b *borrowers) borrow(ctx context.Context, via caller, pool string, ttl int) (lease grantedLease, ok bool) {
	got, _ := b.call(ctx, via, "borrow", pool, fmt.Sprintf(`"ttl":%d,"wait":20`, ttl))
	if got.code != 200 || json.Unmarshal([]byte(got.body), &lease) != nil {
		return lease, false
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	at := place{pool, lease.Position}
	if b.held[at] != "" {
		b.wrong = append(b.wrong, fmt.Sprintf("position %d was lent twice", lease.Position))
	}
	if lease.Fence <= b.fences[at] {
		b.wrong = append(b.wrong, fmt.Sprintf("fence %d came after %d", lease.Fence, b.fences[at]))
	}
	b.held[at], b.fences[at] = lease.Lease, lease.Fence
	if pool != longPool {
		b.granted++
	}
	b.changeLocked()
	return lease, true
}

// renew checks that a lease is still what it was.
func (b *borrowers) renew(ctx context.Context, via caller, long grantedLease) {
	got, _ := b.call(ctx, via, "renew", longPool, fmt.Sprintf(`"lease":"%s","ttl":3600`, long.Lease))
	var now grantedLease
	if err := json.Unmarshal([]byte(got.body), &now); got.code != 200 || err != nil || now != long {
		b.fail(fmt.Sprintf("the renewal of %v: %d %s", long, got.code, got.body))
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	b.renewed++
	b.changeLocked()
}

func (b *borrowers) giveBack(ctx context.Context, via caller, pool string, lease grantedLease) {
	b.mu.Lock()
	delete(b.held, place{pool, lease.Position})
	b.mu.Unlock()
	got, repeated := b.call(ctx, via, "return", pool, fmt.Sprintf(`"lease":"%s"`, lease.Lease))
	if got.code != 200 || got.body != `{"returned":true}` && !repeated {
		b.fail(fmt.Sprintf("the return of %v: %d %s", lease, got.code, got.body))
	}
}

// call repeats a request until it is answered, and not with 503. repeated reports whether
// the outcome of an attempt is unknown.
func (b *borrowers) call(ctx context.Context, via caller, operation, pool, fields string) (got answer, repeated bool) {
	pace := rate.NewLimiter(rate.Every(retryPace), 1)
	for pace.Wait(ctx) == nil {
		down := b.down.Load()
		var err error
		got, err = via.call(ctx, operation, pool, fields)
		what := outcome(got, err)
		b.mu.Lock()
		b.met[via.transport()+" "+what]++
		b.mu.Unlock()
		switch what {
		case "200", "409":
			return got, repeated
		case metDraining:
		case metAbsent, metLost:
			if repeated = repeated || what == metLost; down || b.down.Load() {
				continue
			}
			fallthrough
		default:
			b.fail(fmt.Sprintf("%s: %d %s %v", operation, got.code, got.body, err))
			return got, repeated
		}
	}
	return got, repeated
}

func (b *borrowers) fail(what string) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.wrong = append(b.wrong, what)
	b.changeLocked()
}

func (b *borrowers) changeLocked() {
	close(b.changed)
	b.changed = make(chan struct{})
}

// awaitGrants waits for n more leases.
func (b *borrowers) awaitGrants(t *testing.T, n int) {
	t.Helper()
	b.mu.Lock()
	target := b.granted + n
	b.mu.Unlock()
	b.await(t, func() bool { return b.granted >= target && len(b.held) >= borrowersHTTP+borrowersNATS })
}

// back waits until each client is connected to the restarted gateway.
func (b *borrowers) back(t *testing.T) {
	t.Helper()
	b.balancer.awaitReady(t)
	for _, c := range b.nats {
		waitFor(t, c.nc.IsConnected)
	}
	b.down.Store(false)
}

// wantRenewed has each client renew its long lease.
func (b *borrowers) wantRenewed(t *testing.T) {
	t.Helper()
	rounds := int(b.renewals.Add(1))
	b.await(t, func() bool { return b.renewed == rounds*(borrowersHTTP+borrowersNATS) })
}

func (b *borrowers) await(t *testing.T, reached func() bool) {
	t.Helper()
	for {
		b.mu.Lock()
		done, changed, wrong := reached(), b.changed, b.wrong
		b.mu.Unlock()
		if len(wrong) > 0 {
			t.Fatalf("%d errors, the first ones: %q", len(wrong), wrong[:min(len(wrong), 5)])
		}
		if done {
			return
		}
		<-changed
	}
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
	for _, transport := range []string{"HTTP", "NATS"} {
		if b.met[transport+" "+metDraining] == 0 {
			t.Errorf("no client over %s met a gateway that drains", transport)
		}
	}
	t.Logf("%d leases, %d renewals of long ones; answers: %v", b.granted, b.renewed, b.met)
}
