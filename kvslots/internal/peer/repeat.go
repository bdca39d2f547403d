package peer

import (
	"time"

	"github.com/kvslots/kvslots/kvslots/internal/entry"
	"github.com/kvslots/kvslots/kvslots/internal/rules"
)

// A borrow with a request key can be repeated at any peer, if its answer was lost or its
// caller has gone. While a lease that was granted for the key lives, each repeat is answered
// with that lease: it resumes. While a ticket of the key stands in the line, each repeat waits in
// its place: it shares the borrow of this peer, and takes the place from any other peer.

// differs reports whether a borrow with the same request key asks for something else.
func (b *borrow) differs(w *wish) bool { return b.ttl != w.ttl || b.terms != w.terms }

// refuseReused refuses a borrow whose request key is that of a borrow which asks for something
// else, if that goes on, and the session lives, in a view as new as now.
func (p *pools) refuseReused(c *call, pool entry.Hash, w *wish, wait time.Duration) {
	ends := p.now().Add(wait)
	p.whenCurrent(c, func() {
		switch b := p.of(pool).requests[w.request]; {
		case !w.session.IsZero() && !p.view().Alive(w.session):
			c.answer(Answer{Err: ErrSessionGone})
		case b != nil && b.differs(w) && w.awaits:
			c.answer(Answer{Err: ErrNotEnqueued})
		case b != nil && b.differs(w):
			c.answer(Answer{Err: ErrKeyReused})
		default:
			p.borrow(c, pool, w, max(0, ends.Sub(p.now())))
		}
		p.of(pool).mark()
	})
}

// noteRequested looks at the borrow that waits with the request key of a slot which has been
// claimed.
func (p *pools) noteRequested(e *entry.Entry) {
	ps := p.byID[e.Key.Pool]
	if ps == nil {
		return
	}
	if b := ps.requests[e.Slot.Request]; b != nil {
		b.p.whenLive(b.lookForSlot)
	}
	if b := ps.requests[e.Slot.Session]; b != nil && e.Slot.Unseen {
		b.turn(waiting)
	}
}

// lookForSlot takes a borrow out of the line whose key has a slot, so that it resumes. It waits
// while the slot's claim may still be withdrawn.
func (b *borrow) lookForSlot() {
	if b.phase != waiting || b.request.IsZero() || b.enqueued() {
		return
	}
	pool := b.p.view().Pool(b.pool.id)
	switch s := pool.Requested(b.request); {
	case s == nil:
	case s.Excluded():
		b.pool.sweep(s)
		b.p.after(nil, failurePause, b.lookForSlot)
	case s.InDoubt(b.p.now()), !s.Good() && pool.InUse() > pool.Size():
		b.p.after(nil, failurePause, b.lookForSlot)
	default:
		b.leaveLine()
		b.backToQueue()
	}
}

// resume answers a borrow with the lease that was granted for its request key. It writes the
// slot again with the time that is left: the compare-and-swap proves that the lease lives.
func (b *borrow) resume(pool *rules.Pool, s *rules.Slot) {
	now := b.p.now()
	switch {
	case !b.awaits && (s.Value.Asked != entry.Span(b.ttl.Truncate(time.Millisecond)) || pool.Terms() != b.terms):
		b.refuse(ErrKeyReused)
	case s.Excluded():
		b.pool.sweep(s)
		b.pool.markLater()
	case s.InDoubt(now), s.Ended(now), s.Expiring(now), !s.Good() && pool.InUse() > pool.Size():
		b.pool.markLater()
	default:
		b.leaveLine()
		b.to(resuming)
		key := rules.SlotKey(b.pool.id, s.Position)
		// Not less than any answer has promised, in whole milliseconds.
		left := max((b.p.timeLeft(s) + time.Millisecond - 1).Truncate(time.Millisecond), time.Second)
		if b.awaits { // the lease begins anew; a repeat has written what was left
			left = max(s.Value.Asked, s.Value.TTL).Duration()
		}
		value, untold := s.Rewritten(left), !s.Told()
		value.Unseen = value.Unseen && !b.awaits
		author := b.p.randomNumber()
		value.Tell(author)
		m := b.p.value(key, value, s.Revision, left)
		m.Author = author
		b.p.put(m, func(w *write) { b.resumed(w, value.Lease, untold, left, now) })
	}
}

// resumed handles the outcome of the write. If no caller is answered, its answer is taken off.
func (b *borrow) resumed(w *write, lease entry.Hash, untold bool, left time.Duration, sent Instant) {
	resumes := b.phase == resuming // otherwise its callers have gone
	s := b.p.view().Pool(b.pool.id).Slot(w.key().N)
	lives := w.written() && s != nil && s.Live() && s.Value.Lease == lease
	shown := lives && s.Revision == w.revision()
	switch {
	case resumes && shown && !b.isGone() && b.grantResumed(s, untold, left, sent):
		return
	case !w.refused():
		if w.unknown() {
			w.disown()
		}
		b.p.takeOff(w.key(), w.author(), w.expected(), func() {})
	case resumes && !w.learnt():
		b.pool.pause(failurePause)
	}
	switch {
	case !resumes:
	case b.isGone():
		b.finish(Answer{Err: b.why})
	case shown || w.unknown() || b.awaits && lives:
		b.finish(Answer{Err: ErrUnavailable})
	default: // it has ended, or was renewed
		if b.awaits && w.written() {
			b.why = ErrLeaseExpired
		}
		b.backToQueue()
	}
}

// grantResumed answers with the slot that the borrow has written. An Await of a slot of which no caller was told
// is the first call to be told of it. grantResumed returns false if it is too late for an answer.
func (b *borrow) grantResumed(s *rules.Slot, untold bool, left time.Duration, sent Instant) bool {
	g, ok := b.p.grantAgain(s, left, sent)
	if b.awaits && untold {
		g, ok = b.p.grantOf(s, left, sent)
	}
	if !ok {
		return false
	}
	if b.awaits {
		g.Resumed = false
		b.p.count().Grants++
		if t := leftTicket(s); t != nil {
			b.p.discard(t.Key, t.Revision, nil)
		}
	}
	b.finish(Answer{Grant: g})
	return true
}
