package kvslots

import (
	"context"
	"errors"
	"time"

	"github.com/kvslots/kvslots/kvslots/internal/entry"
	"github.com/kvslots/kvslots/kvslots/internal/rules"
)

// promoteGrace is how long a peer leaves an enqueued ticket to another one that
// comes before it.
const promoteGrace = 300 * time.Millisecond

// standing is what has become of what a session enqueued for.
type standing int

// The standings.
const (
	absent standing = iota // it has not enqueued, or knows the outcome
	queued                 // it stands in line
	served                 // it holds a slot, and has not asked
	spent                  // it held a slot and did not ask in time
)

// enqueued is that, with what stands in the bucket.
type enqueued struct {
	standing standing
	lock     bool            // and not a semaphore's
	doubtful bool            // a claim for it may yet be withdrawn
	ticket   uint64          // the ticket's revision; 0 where there is none
	value    entry.SlotValue // of the slot, if it has one
}

// stateOfEnqueued reads it from the view. Unless the view is exact, absent and
// spent are guesses. A claim that may yet be withdrawn leaves its ticket queued.
func (b *bucket) stateOfEnqueued(pool, session entry.Hash) enqueued {
	p := b.world.Pool(pool)
	if p == nil {
		return enqueued{}
	}
	var e enqueued
	var slot *rules.Slot
	b.world.EachSlotOf(session, func(s *rules.Slot) bool {
		if s.Pool == p && s.Live() && s.Value.Unseen {
			slot = s
		}
		return slot == nil
	})
	t := p.TicketAt(ticketOfSession(pool, session))
	if t != nil {
		e.ticket, e.lock = t.Revision, t.Value.Lock
	}
	if slot != nil {
		e.value, e.lock = slot.Value, slot.Value.Lock
		e.doubtful = slot.Verdict() != rules.Good && slot.InDoubt(b.now())
	}
	switch {
	case e.doubtful:
		e.standing = queued
		b.wantExactFor(pool)
	case slot != nil:
		e.standing = served
	case t == nil:
	case t.Value.Spent:
		e.standing = spent
	case t.Stands() || t.Void(): // its own peer takes out what is void, or knows better
		e.standing = queued
	}
	return e
}

// await is one who waits for what its session enqueued for.
type await struct {
	pool, session entry.Hash
	lock          bool
	looked        bool
	over          error         // why there is no more waiting
	left          bool          // it was this very call that left the line
	changed       chan struct{} // poked when it is queued no more
}

// tellAwaits wakes those in a pool who are not queued any more.
func (b *bucket) tellAwaits(pool entry.Hash) {
	for w := range b.awaits[pool] {
		if b.stateOfEnqueued(pool, w.session).standing != queued || !b.alive(w.session) {
			poke(w.changed)
		}
	}
}

func (b *bucket) addAwait(w *await) (remove func()) {
	if b.awaits[w.pool] == nil {
		b.awaits[w.pool] = map[*await]struct{}{}
	}
	b.awaits[w.pool][w] = struct{}{}
	return func() {
		b.mu.Lock()
		defer b.mu.Unlock()
		if delete(b.awaits[w.pool], w); len(b.awaits[w.pool]) == 0 {
			delete(b.awaits, w.pool)
		}
	}
}

// look tells what has become of it. At first, and if that seems to be nothing
// good, an exact view does that is as new as the question: the session may just
// have been somewhere else.
func (w *await) look(ctx context.Context, b *bucket) (e enqueued, err error) {
	read := func() bool {
		err = nil
		if e = b.stateOfEnqueued(w.pool, w.session); e.lock != w.lock {
			e = enqueued{}
		}
		if !b.alive(w.session) {
			e, err = enqueued{}, ErrSessionGone
		}
		return !e.doubtful
	}
	b.mu.Lock()
	certain := read() && err == nil && w.looked && (e.standing == queued || e.standing == served)
	w.looked = true
	b.mu.Unlock()
	if certain {
		return e, nil
	}
	if failed := b.ask(ctx, read); failed != nil {
		return e, failed
	}
	return e, err
}

// wait waits until the session has its slot, for as long as is said. The nonce is
// what its token is derived from.
func (w *await) wait(ctx context.Context, b *bucket, wait time.Duration) (l *Lease, nonce entry.Hash, err error) {
	b.mu.Lock()
	remove := b.addAwait(w)
	b.mu.Unlock()
	defer remove()
	expiry := time.NewTimer(wait)
	defer expiry.Stop()
	for {
		l, nonce, err = w.step(ctx, b)
		cause := context.Cause(ctx)
		switch {
		case l != nil:
			return l, nonce, nil
		case err != nil && w.over == nil && cause != nil && errors.Is(err, cause) && !errors.Is(cause, ErrPlaceKept):
			w.over = cause // while it was looking
		case err != nil && w.over != nil && !errors.Is(w.over, ErrNoSlot):
			return nil, nonce, w.over
		case err != nil:
			return nil, nonce, err
		case w.over == nil:
			if err := w.sleep(ctx, b, expiry.C); err != nil {
				return nil, nonce, err
			}
		}
	}
}

// sleep waits for a change, and notes why there is no more waiting if it is that.
func (w *await) sleep(ctx context.Context, b *bucket, expiry <-chan time.Time) error {
	select {
	case <-w.changed:
	case <-expiry:
		w.over = ErrNoSlot
	case <-b.closed:
		return ErrClosed
	case <-ctx.Done():
		if w.over = context.Cause(ctx); errors.Is(w.over, ErrPlaceKept) {
			return w.over
		}
	}
	return nil
}

// step looks what has become of it, and does what is to be done: it takes the
// slot, or leaves the line when there is no more waiting. It returns neither a
// lease nor an error when there is more to come.
func (w *await) step(ctx context.Context, b *bucket) (l *Lease, nonce entry.Hash, err error) {
	during, end := w.lasting(ctx)
	defer end()
	e, err := w.look(during, b)
	if err != nil {
		return nil, nonce, err
	}
	switch {
	case e.standing == absent && w.left:
		err = w.over
	case e.standing == absent:
		err = ErrNotEnqueued
	case e.standing == spent:
		if _, err = w.leaveLine(during, b, e.ticket); err == nil {
			err = ErrLeaseExpired
		}
	case e.standing == served && w.over != nil && !errors.Is(w.over, ErrNoSlot):
		if err = w.over; e.value.Ticket != 0 { // else it was told the token when it enqueued
			b.mu.Lock()
			b.consume(w.pool, w.session)
			b.mu.Unlock()
			_, _ = b.giveBack(during, wanted{pool: w.pool, lease: e.value.Lease, unseen: true})
		}
	case e.standing == served:
		// It is not left halfway, whatever becomes of the caller: a slot that
		// counts as seen, and was not, would be nobody's.
		whole, done := bounded(context.WithoutCancel(ctx))
		defer done()
		l, err = w.take(whole, b, e)
	case w.over != nil:
		var left bool
		left, err = w.leaveLine(during, b, e.ticket)
		w.left = w.left || left
	}
	return l, e.value.Nonce, err
}

// lasting is the context to go on with: the caller's own, or one that bounds the
// clearing up after the caller has gone.
func (w *await) lasting(ctx context.Context) (context.Context, context.CancelFunc) {
	if w.over == nil || ctx.Err() == nil {
		return context.WithCancel(ctx)
	}
	return bounded(context.WithoutCancel(ctx))
}

// take makes the session's slot one that it knows of: its lease begins anew.
// Whoever claimed it for the session cannot withdraw it any more. It returns
// neither a lease nor an error when the slot was withdrawn before that.
func (w *await) take(ctx context.Context, b *bucket, e enqueued) (*Lease, error) {
	v := e.value
	lease, err := b.renew(ctx, wanted{pool: w.pool, lease: v.Lease, unseen: true}, noLease, v.TTL.Duration(), func(v *entry.SlotValue) { v.Unseen = false })
	if isLost(err) {
		now, err := w.look(ctx, b)
		switch {
		case err != nil || now.standing == queued || now.standing == served:
			return nil, err
		case e.ticket == 0: // it had been told the token, and it was given back
			return nil, ErrNotEnqueued
		}
		if _, err = w.leaveLine(ctx, b, max(e.ticket, now.ticket)); err == nil {
			err = ErrLeaseExpired
		}
		return nil, err
	}
	if lease != nil && e.ticket != 0 {
		// Before anybody can give the slot back: a view that skipped its purge
		// would take the ticket for one that stands again.
		if a, err := b.put1(ctx, purge(ticketOfSession(w.pool, w.session), e.ticket, 0)); err != nil || a.err != nil {
			b.mu.Lock()
			b.consume(w.pool, w.session)
			b.mu.Unlock()
		}
	}
	return lease, err
}

// notEnqueued tells whether a session may enqueue.
func (b *bucket) notEnqueued(ctx context.Context, op *borrow) error {
	before := false
	err := b.ask(ctx, func() bool {
		before = b.enqueuedBefore(op)
		return !b.stateOfEnqueued(op.pool, op.session).doubtful
	})
	if err == nil && before {
		err = ErrAlreadyEnqueued
	}
	return err
}

// leaveLine takes an enqueued ticket out of the line, unless it has changed; in
// either case the view then knows.
func (w *await) leaveLine(ctx context.Context, b *bucket, ticket uint64) (left bool, err error) {
	a, err := b.put1(ctx, purge(ticketOfSession(w.pool, w.session), ticket, 0))
	if err != nil {
		return false, err
	}
	if a.err == nil {
		return true, b.askFrom(ctx, a.revision, func() bool { return true })
	}
	return false, b.afterConflict(ctx, w.pool, a)
}
