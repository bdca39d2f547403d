package kvslots

import (
	"context"
	"errors"
	"slices"
	"sync"
	"time"

	"github.com/kvslots/kvslots/kvslots/clock"
)

// DefaultLeaseTTL is a lease without WithTTL. One that is renewed in the background survives 70 s without an
// answer.
const DefaultLeaseTTL = 90 * time.Second

// Mutex is a lock, or one slot of a semaphore, by name, which a Session holds. It is safe for
// concurrent use: its callers exclude each other, too. In contrast to a sync.Mutex it can be
// lost: Done tells when.
type Mutex struct {
	session *Session
	on      Resource
	opts    []Option
	ttl     time.Duration
	wait    time.Duration // see WithWait
	wrong   error         // of an option
	turn    chan struct{} // has room for the one caller that holds or waits

	mu   sync.Mutex
	held *hold // nil while it is not held
}

// hold is one time for which a Mutex is held.
type hold struct {
	tenure
	in    *Session
	grant Grant
	stop  context.CancelFunc // stops the renewals
}

// Mutex returns the lock of a name, which is not held yet. The options are those of Store.Acquire.
func (s *Session) Mutex(name string, opts ...Option) *Mutex { return s.mutex(Lock(name), opts) }

// Semaphore returns one slot of the semaphore of a name, which has limit slots. It is not held
// yet. Each Mutex that it returns holds one slot at most. While the semaphore is in use with another
// limit, Lock and TryLock return ErrLimitMismatch.
func (s *Session) Semaphore(name string, limit int, opts ...Option) *Mutex {
	return s.mutex(Semaphore(name, limit), opts)
}

func (s *Session) mutex(on Resource, opts []Option) *Mutex {
	m := &Mutex{session: s, on: on, opts: opts, turn: make(chan struct{}, 1)}
	var o Options
	m.wrong = o.Apply(opts)
	m.ttl, m.wait = o.Times()
	return m
}

// Lock takes the lock. It waits in line until ctx ends, across failures of single gateways.
// Then its lease is renewed until Unlock.
//
// The errors are context.Cause(ctx), ErrSessionGone, and those of Store.Acquire except, without
// WithWait, ErrNoSlot and, while the session lives and the wait goes on, ErrUnavailable.
func (m *Mutex) Lock(ctx context.Context) error {
	ctx, cancel := m.session.within(ctx)
	defer cancel()
	select {
	case m.turn <- struct{}{}:
	case <-ctx.Done():
		return context.Cause(ctx)
	}
	err := persist(ctx, m.wait, func(own ...Option) error { return m.acquire(ctx, own...) })
	if err != nil {
		<-m.turn
	}
	return err
}

// TryLock takes the lock if it is free. Otherwise the error is a *TakenError, in which errors.Is finds ErrNoSlot. The
// other errors are those of Store.Acquire.
func (m *Mutex) TryLock(ctx context.Context) error {
	select {
	case m.turn <- struct{}{}:
	default:
		return &TakenError{Err: ErrNoSlot, Name: m.on.Key, HeldBy: "another caller of this Mutex"}
	}
	ctx, cancel := m.session.within(ctx)
	defer cancel()
	err := m.acquire(ctx, WithWait(0))
	if err != nil {
		<-m.turn
	}
	return err
}

// acquire sends one request. If it is granted, it keeps the lease alive.
func (m *Mutex) acquire(ctx context.Context, own ...Option) error {
	if m.wrong != nil {
		return m.wrong
	}
	in, err := m.session.covering(ctx, m.ttl)
	if err != nil {
		return err
	}
	sent := clock.Now()
	own = append(own, WithTTL(min(m.ttl, in.idle)))
	g, err := in.at.Acquire(ctx, in.id, m.on, slices.Concat(m.opts, own)...)
	if err != nil {
		return err
	}
	if !g.At.IsZero() {
		sent = clock.Now() - time.Since(g.At)
	}
	h := &hold{in: in, grant: g, tenure: tenure{ttl: g.TTL, deadline: sent + g.TTL}}
	h.notice()
	renewing, stop := context.WithCancel(context.Background())
	lost := context.AfterFunc(in.done, func() { h.end(in.Err()) })
	h.stop = func() {
		lost()
		stop()
	}
	m.mu.Lock()
	m.held = h
	m.mu.Unlock()
	go h.ask(func(ctx context.Context) error { return m.stillHeld(ctx, h) })
	go h.keep(renewing, func(ctx context.Context) error { return m.extend(ctx, h) })
	return nil
}

// stillHeld asks whether the lock is held. The end of its session is noticed so, too.
func (m *Mutex) stillHeld(ctx context.Context, h *hold) error {
	_, err := h.in.at.GrantHolder(ctx, h.in.id, m.on, h.grant.Token)
	if errors.Is(err, ErrSessionGone) {
		h.in.end(err)
	}
	return err
}

func (m *Mutex) extend(ctx context.Context, h *hold) error {
	sent := clock.Now()
	left, err := h.in.at.RenewGrant(ctx, h.in.id, m.on, h.grant.Token, min(m.ttl, h.in.idle))
	if err != nil {
		h.failed(err)
		return err
	}
	h.extend(left, sent+left)
	return nil
}

// Unlock releases the lock. It ignores the end of ctx: see ReturnTimeout. If the lock was lost before, the
// error is Err, in which errors.Is finds ErrNotHeld, ErrSessionGone or ErrUnavailable; a second Unlock
// returns ErrNotHeld. Otherwise the error is one of Store.Release. After each of them this Mutex does not
// hold the lock.
func (m *Mutex) Unlock(ctx context.Context) error {
	h := m.forget()
	if h == nil {
		return ErrNotHeld
	}
	lost := h.Err()
	err := h.in.at.Release(ctx, h.in.id, m.on, h.grant.Token)
	h.end(errReturned)
	<-m.turn
	if lost != nil && (err == nil || isLost(err)) {
		return lost
	}
	return err
}

// forget stops the renewals of the present hold, which it returns, or nil.
func (m *Mutex) forget() *hold {
	m.mu.Lock()
	defer m.mu.Unlock()
	h := m.held
	if m.held = nil; h != nil {
		h.stop()
	}
	return h
}

func (m *Mutex) holding() *hold {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.held != nil {
		return m.held
	}
	h := &hold{tenure: tenure{why: ErrNotHeld}}
	h.notice()
	return h
}

// TTL, Left, ExpiresAt and Trouble are those of a Lease, of the lock as it is held now.
func (m *Mutex) TTL() time.Duration   { return m.holding().TTL() }
func (m *Mutex) Left() time.Duration  { return m.holding().Left() }
func (m *Mutex) ExpiresAt() time.Time { return m.holding().ExpiresAt() }
func (m *Mutex) Trouble() error       { return m.holding().Trouble() }

// Fence returns the fencing token of the lock while it is held, and otherwise 0: see
// Lease.Fence.
func (m *Mutex) Fence() uint64 { return m.holding().grant.Fence }

// Done returns a channel that is closed when the lock, as it is held now, is lost or unlocked.
// Without a lock it is closed already.
func (m *Mutex) Done() <-chan struct{} { return m.holding().done.Done() }

// Err returns nil while the lock is held, and then why it is not: see Session.Err, and
// Lease.Err.
func (m *Mutex) Err() error { return m.holding().Err() }

// Context returns a context for the work under the lock as it is held now: see Lease.Context.
func (m *Mutex) Context(parent context.Context) (context.Context, context.CancelFunc) {
	return m.holding().within(parent)
}
