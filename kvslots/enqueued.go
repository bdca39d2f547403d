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

// enqueued is that, with where it stands in the bucket.
type enqueued struct {
	standing standing
	ticket   *rules.Ticket
	slot     *rules.Slot
}

// stateOfEnqueued reads it from the view. Unless the view is exact, absent and
// spent are guesses. A claim that may yet be withdrawn leaves its ticket queued.
func (b *bucket) stateOfEnqueued(pool, session entry.Hash) enqueued {
	p := b.world.Pool(pool)
	if p == nil {
		return enqueued{}
	}
	e := enqueued{ticket: p.TicketAt(ticketOfSession(pool, session))}
	b.world.EachSlotOf(session, func(s *rules.Slot) bool {
		if s.Pool == p && s.Live() && s.Value.Unseen {
			e.slot = s
		}
		return e.slot == nil
	})
	t := e.ticket
	switch {
	case e.slot != nil && (e.slot.Verdict() == rules.Good || !e.slot.InDoubt(b.now())):
		e.standing = served
	case e.slot != nil:
		e.standing = queued
		b.wantExactFor(pool)
	case t == nil || t.Void() || t.Claim() != nil:
	case t.Value.Spent:
		e.standing = spent
	case t.Stands():
		e.standing = queued
	}
	return e
}

// is tells whether it is a lock's, or a semaphore's.
func (e enqueued) is(lock bool) bool {
	if e.slot != nil {
		return e.slot.Value.Lock == lock
	}
	return e.ticket != nil && e.ticket.Value.Lock == lock
}

// await is one who waits for what its session enqueued for.
type await struct {
	pool, session entry.Hash
	lock          bool
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

// look tells what has become of it; if that seems to be nothing good, an exact
// view that is as new as the question does.
func (w *await) look(ctx context.Context, b *bucket) (e enqueued, err error) {
	read := func() bool {
		if e = b.stateOfEnqueued(w.pool, w.session); !e.is(w.lock) {
			e = enqueued{}
		}
		if !b.alive(w.session) {
			e, err = enqueued{}, ErrSessionGone
		}
		return true
	}
	b.mu.Lock()
	read()
	b.mu.Unlock()
	if e.standing == queued || e.standing == served {
		return e, nil
	}
	err = nil
	if failed := b.ask(ctx, read); failed != nil {
		return e, failed
	}
	return e, err
}

// wait waits until the session has its slot, for as long as is said.
func (w *await) wait(ctx context.Context, b *bucket, wait time.Duration) (l *Lease, nonce entry.Hash, err error) {
	b.mu.Lock()
	remove := b.addAwait(w)
	b.mu.Unlock()
	defer remove()
	expiry := time.NewTimer(wait)
	defer expiry.Stop()
	var over error // why there is no more waiting
	for {
		during, end := lasting(ctx, over)
		e, err := w.look(during, b)
		switch {
		case err != nil:
		case e.standing == absent && errors.Is(over, ErrNoSlot):
			err = ErrNoSlot // it was this very call that left the line
		case e.standing == absent:
			err = ErrNotEnqueued
		case e.standing == spent:
			if err = b.leaveLine(during, e.ticket); err == nil {
				err = ErrLeaseExpired
			}
		case e.standing == served && over != nil && !errors.Is(over, ErrNoSlot):
			b.mu.Lock()
			b.consume(w.pool, w.session)
			b.mu.Unlock()
			_, err = b.giveBack(during, wanted{pool: w.pool, lease: e.slot.Value.Lease})
		case e.standing == served:
			nonce = e.slot.Value.Nonce
			if l, err = w.take(during, b, e); err == nil && l != nil {
				end()
				return l, nonce, nil
			}
		case over != nil:
			err = b.leaveLine(during, e.ticket)
		}
		end()
		if err != nil {
			if over != nil && !errors.Is(err, ErrSessionGone) {
				return nil, nonce, over
			}
			return nil, nonce, err
		}
		if over != nil {
			continue
		}
		select {
		case <-w.changed:
		case <-expiry.C:
			over = ErrNoSlot
		case <-b.closed:
			return nil, nonce, ErrClosed
		case <-ctx.Done():
			if over = context.Cause(ctx); errors.Is(over, ErrPlaceKept) {
				return nil, nonce, over
			}
		}
	}
}

// lasting is the context to go on with: the caller's own, or one that bounds the
// clearing up after the caller has gone.
func lasting(ctx context.Context, over error) (context.Context, context.CancelFunc) {
	if over == nil || ctx.Err() == nil {
		return context.WithCancel(ctx)
	}
	return bounded(context.WithoutCancel(ctx))
}

// take makes the session's slot one that it knows of: its lease begins anew.
// Whoever claimed it for the session cannot withdraw it any more. It returns
// neither a lease nor an error when the slot was withdrawn before that.
func (w *await) take(ctx context.Context, b *bucket, e enqueued) (*Lease, error) {
	v := e.slot.Value
	lease, err := b.renew(ctx, wanted{pool: w.pool, lease: v.Lease}, noLease, v.TTL.Duration(), func(v *entry.SlotValue) { v.Unseen = false })
	if isLost(err) {
		e, err = w.look(ctx, b)
		switch {
		case err != nil:
		case e.standing == absent:
			err = ErrLeaseExpired
		case e.standing == spent:
			if err = b.leaveLine(ctx, e.ticket); err == nil {
				err = ErrLeaseExpired
			}
		}
		return nil, err
	}
	if err == nil {
		b.mu.Lock()
		b.consume(w.pool, w.session)
		b.mu.Unlock()
	}
	return lease, err
}

// notEnqueued tells whether a session may enqueue.
func (b *bucket) notEnqueued(ctx context.Context, op *borrow) error {
	before := false
	read := func() bool { before = b.enqueuedBefore(op); return true }
	b.mu.Lock()
	read()
	b.mu.Unlock()
	if before { // that it is so still has to be certain
		if err := b.ask(ctx, read); err != nil {
			return err
		}
	}
	if before {
		return ErrAlreadyEnqueued
	}
	return nil
}

// leaveLine takes an enqueued ticket out of the line, unless it has changed; in
// either case the view then knows.
func (b *bucket) leaveLine(ctx context.Context, t *rules.Ticket) error {
	a, err := b.put1(ctx, purge(t.Key, t.Revision, 0))
	if err != nil {
		return err
	}
	if a.err == nil {
		return b.askFrom(ctx, a.revision, func() bool { return true })
	}
	return b.afterConflict(ctx, t.Key.Pool, a)
}
