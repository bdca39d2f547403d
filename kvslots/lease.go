package kvslots

import (
	"context"
	"sync"
	"time"

	"github.com/google/uuid"

	"github.com/kvslots/kvslots/kvslots/internal/entry"
)

// Lender grants leases: a Store, or the Client of package client.
type Lender interface {
	Return(ctx context.Context, pool, lease uuid.UUID) (bool, error)
	Renew(ctx context.Context, pool, lease uuid.UUID, ttl time.Duration) (*Lease, error)
}

// watcher is a Lender that sees a lease end before its time: because it was
// returned elsewhere, say, or its pool was deleted.
type watcher interface {
	follow(l *Lease) (stop func())
}

// Lease is one held slot. Its methods may be called from several goroutines.
type Lease struct {
	lender   Lender
	pool     uuid.UUID
	id       uuid.UUID
	position int
	fence    uint64
	queued   bool

	mu       sync.Mutex
	ttl      time.Duration
	deadline time.Time
	done     chan struct{} // made by the first Done
	timer    *time.Timer   // ends it at the deadline, once there is a done
	unfollow func()        // set by the first Done
	ended    bool
}

// NewLease is a lease that was granted, or renewed, at the instant now. It is for
// packages that have a Lender of their own.
func NewLease(by Lender, pool, id uuid.UUID, position int, fence uint64, ttl time.Duration, now time.Time) *Lease {
	return &Lease{lender: by, pool: pool, id: id, position: position, fence: fence, ttl: ttl, deadline: now.Add(ttl)}
}

// ID is the lease's UUID. It is a secret: whoever has it can return the lease.
func (l *Lease) ID() uuid.UUID { return l.id }

// Position is the slot, 0 … count−1 of the pool.
func (l *Lease) Position() int { return l.position }

// Fence is the lease's fencing token: higher than that of every earlier lease
// of the pool, the same over all renewals, and below 2^53. A resource that
// remembers the highest fence it has seen, and refuses lower ones, is safe from
// a holder that does not know yet that its lease has ended.
func (l *Lease) Fence() uint64 { return l.fence }

// Queued reports whether a Store's Borrow stood in line before it was granted. It is
// false for a Client's lease and for the result of a renewal.
func (l *Lease) Queued() bool { return l.queued }

// TTL is how long the lease was promised to last from the moment the call that
// granted or last renewed it returned. It may be less than was asked for: see
// Config.MaxTTL.
func (l *Lease) TTL() time.Duration {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.ttl
}

// ExpiresAt is when the lease ends unless it is renewed or returned, by this
// machine's clocks. It carries a monotonic reading, so time.Until is safe from
// steps of the wall clock.
func (l *Lease) ExpiresAt() time.Time {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.deadline
}

// Done is closed when the lease has ended: at its deadline, when it is returned,
// when a renewal is refused, and, with a Store, as soon as the Store sees that
// it was returned or its pool deleted elsewhere. It is never opened again.
func (l *Lease) Done() <-chan struct{} {
	done, first := l.makeDone()
	w, ok := l.lender.(watcher)
	if !first || !ok {
		return done
	}
	stop := w.follow(l) // not under our lock: it may end the lease at once
	l.mu.Lock()
	l.unfollow = stop
	ended := l.ended
	l.mu.Unlock()
	if ended {
		stop()
	}
	return done
}

// makeDone makes the channel, and reports whether the end of the lease has to be
// followed from now on.
func (l *Lease) makeDone() (done <-chan struct{}, first bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.done != nil {
		return l.done, false
	}
	l.done = make(chan struct{})
	if l.ended {
		close(l.done)
		return l.done, false
	}
	l.timer = time.AfterFunc(time.Until(l.deadline), l.expire)
	return l.done, true
}

// Return gives the slot back before its time, even when ctx has ended: see
// ReturnTimeout. It returns false when the lease had ended already. The errors
// are those of Store.Return.
func (l *Lease) Return(ctx context.Context) (bool, error) {
	ok, err := l.lender.Return(ctx, l.pool, l.id)
	if err == nil {
		l.end()
	}
	return ok, err
}

// ReturnTimeout bounds the calls that give up what is held: Return, Release and
// EndSession, of a Store, a client of gateways, a Lease and a limiter. These calls ignore
// the cancellation and the deadline of their context, which has usually ended
// when `defer lease.Return(ctx)` runs: a slot that stays taken harms every other
// caller. A call that gets no answer in that time returns ErrUnavailable.
const ReturnTimeout = 10 * time.Second

// Returning is the context of a call that gives up what is held. It keeps the
// values of ctx, and nothing else.
func Returning(ctx context.Context) (context.Context, context.CancelFunc) {
	return context.WithTimeoutCause(context.WithoutCancel(ctx), ReturnTimeout, ErrUnavailable)
}

// Renew makes the lease last for ttl from now on. The errors are those of
// Store.Renew; after ErrNotHeld and ErrNoPool the lease has ended.
func (l *Lease) Renew(ctx context.Context, ttl time.Duration) error {
	again, err := l.lender.Renew(ctx, l.pool, l.id, ttl)
	if isLost(err) {
		l.end()
	}
	if err != nil {
		return err
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	l.ttl, l.deadline = again.ttl, again.deadline
	if l.timer != nil {
		l.timer.Reset(time.Until(l.deadline))
	}
	return nil
}

// expire ends the lease at its deadline, unless that has moved meanwhile.
func (l *Lease) expire() {
	l.mu.Lock()
	left := time.Until(l.deadline)
	if left > 0 {
		l.timer.Reset(left)
	}
	l.mu.Unlock()
	if left <= 0 {
		l.end()
	}
}

// end closes Done.
func (l *Lease) end() {
	l.mu.Lock()
	if l.ended {
		l.mu.Unlock()
		return
	}
	l.ended = true
	if l.done != nil {
		l.timer.Stop()
		close(l.done)
	}
	stop := l.unfollow
	l.mu.Unlock()
	if stop != nil {
		stop()
	}
}

func leaseHash(id uuid.UUID) entry.Hash { return entry.HashOf("lease", id.String()) }

func poolHash(id uuid.UUID) entry.Hash { return entry.HashOf("library", id.String()) }
