package kvslots

import (
	"context"
	"time"

	"github.com/google/uuid"

	"github.com/kvslots/kvslots/kvslots/internal/peer"
)

// Lender returns, renews and reads the leases that it has granted. It is a Store, or the
// Client of package client.
type Lender interface {
	Return(ctx context.Context, pool, lease uuid.UUID) (bool, error)
	Renew(ctx context.Context, pool, lease uuid.UUID, ttl time.Duration) (*Lease, error)
	Holder(ctx context.Context, pool, lease uuid.UUID) (HolderStats, error)
}

// Lease is the right to one slot for a limited time, which is renewed in the background until Return, unless
// WithFixedTTL is given. It is safe for concurrent use.
type Lease struct {
	lender   Lender
	pool     uuid.UUID
	id       uuid.UUID
	position int
	fence    uint64
	queued   bool
	resumed  bool
	sharers  peer.Sharers

	tenure
	stop func() // ends the renewals in the background; nil: there are none
}

// NewLease returns a lease that was granted, or renewed, for ttl, at a time of package clock. It is for
// packages that implement Lender.
func NewLease(by Lender, pool, id uuid.UUID, position int, fence uint64, ttl, at time.Duration) *Lease {
	return &Lease{lender: by, pool: pool, id: id, position: position, fence: fence, tenure: tenure{ttl: ttl, deadline: at + ttl}}
}

// ID returns the lease's UUID. It is a secret: a caller that knows it and the pool's
// UUID can return the lease.
func (l *Lease) ID() uuid.UUID { return l.id }

// Position returns the slot's number, 0 … count−1.
func (l *Lease) Position() int { return l.position }

// Fence returns the lease's fencing token. It is higher than that of every earlier
// lease of its slot, does not change when the lease is renewed, and is below 2^53. A
// resource that remembers the highest fence it has seen, and refuses lower ones, is
// safe from a holder that has not yet noticed that its lease has ended.
func (l *Lease) Fence() uint64 { return l.fence }

// Resumed reports whether a Store's Borrow has returned the lease that an earlier call with
// the same request key was granted.
func (l *Lease) Resumed() bool { return l.resumed }

// Queued reports whether a Store's Borrow waited in line for the lease. It is false
// for the lease of a client.Client and for the result of a renewal.
func (l *Lease) Queued() bool { return l.queued }

// Done returns a channel that is closed when the lease has ended: at its deadline,
// when it is returned, and within 5 s after others have ended it or deleted its pool.
func (l *Lease) Done() <-chan struct{} {
	l.watch()
	return l.done.Done()
}

// Context returns a context that ends before the lease does: by a tenth of its TTL, at most a
// second, unless the lease is renewed by then. It also ends as soon as Done is closed, and with
// parent. Its cause is Err then. cancel must be called.
func (l *Lease) Context(parent context.Context) (ctx context.Context, cancel context.CancelFunc) {
	l.watch()
	return l.within(parent)
}

// watch notices the end of the lease from now on.
func (l *Lease) watch() {
	if first := l.notice(); first {
		go l.ask(func(ctx context.Context) error { _, err := l.lender.Holder(ctx, l.pool, l.id); return err })
	}
}

// KeepAlive renews the lease in the background, every sixth of its TTL, until it ends or is returned, as Borrow
// has it unless WithFixedTTL is given. It retries a renewal that returns ErrUnavailable until the lease ends. When a
// renewal is refused, Done is closed.
func (l *Lease) KeepAlive() {
	l.watch()
	ctx, cancel := context.WithCancel(context.Background())
	ended := make(chan struct{})
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.stop != nil {
		cancel()
		return
	}
	l.stop = func() {
		cancel()
		<-ended
	}
	ttl := l.ttl
	go func() {
		defer close(ended)
		l.keep(ctx, func(ctx context.Context) error { return l.Renew(ctx, ttl) })
	}()
}

func (l *Lease) unkeep() {
	l.mu.Lock()
	stop := l.stop
	l.stop = nil
	l.mu.Unlock()
	if stop != nil {
		stop()
	}
}

// Return ends the lease early. It ignores the end of ctx: see ReturnTimeout. It
// returns false when the lease had ended already. The errors are those of
// Store.Return. After each of them its holder does not hold it: Done is closed.
func (l *Lease) Return(ctx context.Context) (bool, error) {
	l.unkeep()
	defer l.end(errReturned)
	return l.lender.Return(ctx, l.pool, l.id)
}

// ReturnTimeout is the timeout of the calls that give up what the caller holds: Return,
// Release and EndSession, of a Store, a client.Client, a Lease and a cosmo.Limiter.
// These calls ignore the cancellation and the deadline of their context, because it has
// often ended when `defer lease.Return(ctx)` runs, and a slot that is not returned stays
// taken until its lease ends. A call without an answer in that time returns
// ErrUnavailable.
const ReturnTimeout = 10 * time.Second

// Returning returns the context of a call that gives up what the caller holds. It
// keeps the values of ctx, ignores its end, and has ReturnTimeout as its timeout, unless
// the caller has said otherwise: see ReturnWithin.
func Returning(ctx context.Context) (context.Context, context.CancelFunc) {
	if ctx.Value(returnWithin{}) != nil {
		return context.WithCancel(ctx)
	}
	return context.WithTimeoutCause(context.WithoutCancel(ctx), ReturnTimeout, ErrUnavailable)
}

// ReturnWithin returns a context whose end ends the calls that give up what the caller holds, in place of
// ReturnTimeout: for a program that has a time of its own for them. A Client repeats them until then.
func ReturnWithin(ctx context.Context) context.Context {
	return context.WithValue(ctx, returnWithin{}, true)
}

type returnWithin struct{}

// Renew sets the end of the lease to ttl from now. The errors are those of
// Store.Renew; after ErrNotHeld and ErrNoPool the lease has ended.
func (l *Lease) Renew(ctx context.Context, ttl time.Duration) error {
	again, err := l.lender.Renew(ctx, l.pool, l.id, ttl)
	if err != nil {
		l.failed(err)
		return err
	}
	l.extend(again.ttl, again.deadline)
	return nil
}
