package peer

import (
	"errors"
	"time"

	"github.com/kvslots/kvslots/kvslots/internal/entry"
	"github.com/kvslots/kvslots/kvslots/internal/rules"
)

// A borrow with a request key can be repeated at any peer, if its answer was lost or its
// caller has gone. While a lease that was granted for the key lives, each repeat is answered
// with that lease: it resumes. While the borrow waits at this peer, each repeat joins its
// callers.

// repeatable is a borrow with a request key, and its callers. The borrow works for a call of
// its own, whose answer goes to all callers.
type repeatable struct {
	p       *pools
	borrow  *borrow
	callers []*caller
	last    bool  // a caller without a wait has come last: callers that came before do not come back
	grace   timer // ends the borrow; runs while it has no caller
	finder  timer // calls find
}

// caller is a call that waits for the answer to a borrow with a request key.
type caller struct {
	*call
	wish     *wish
	waits    bool
	came     Instant
	late     bool    // the borrow had begun before
	over     timer   // its wait is over
	refuseBy Instant // see refuseGrace
}

// repeat begins a borrow with a request key, or adds its call to the callers of the one that
// this peer has begun.
func (p *pools) repeat(b *borrow, wait time.Duration) {
	a := &caller{call: b.call, wish: &b.wish, waits: wait > 0, came: p.now}
	r := b.pool.repeatable[b.request]
	switch {
	case r == nil:
		r = &repeatable{p: p, borrow: b}
		b.call = p.calls.begin()
		b.call.settle = r.settle
		r.grace.fire = func() { b.finish(Answer{Err: ErrNoSlot}) }
		r.finder.fire = r.find
		put(&b.pool.repeatable, b.request, r)
		p.start(b, 0)
	case r.differs(b):
		p.refuseReused(b, wait)
		return
	default:
		a.late = true
	}
	r.add(a, wait)
}

// differs reports whether a borrow with the request key asks for something else.
func (r *repeatable) differs(b *borrow) bool {
	return r.borrow.ttl != b.ttl || r.borrow.terms != b.terms
}

// refuseReused refuses a borrow whose request key is that of a borrow which asks for something
// else, if that goes on, and the session lives, in a view as new as now.
func (p *pools) refuseReused(b *borrow, wait time.Duration) {
	b.pool.mark()
	ends := p.now.Add(wait)
	p.reads.whenCurrent(b.call, func() {
		b.pool = p.of(b.pool.id)
		switch r := b.pool.repeatable[b.request]; {
		case !b.session.IsZero() && !p.view.Alive(b.session):
			b.call.answer(Answer{Err: ErrSessionGone})
		case r != nil && r.differs(b):
			b.call.answer(Answer{Err: ErrKeyReused})
		default:
			p.repeat(b, max(0, ends.Sub(p.now)))
			return
		}
		b.pool.mark()
	})
}

// add adds a caller, which waits in the borrow's place.
func (r *repeatable) add(a *caller, wait time.Duration) {
	b, ends := r.borrow, r.p.now.Add(wait)
	r.callers = append(r.callers, a)
	r.last = !a.waits
	r.p.timers.stop(&r.grace)
	a.quit = func(why error) { r.leave(a, why) }
	a.over.fire = func() { r.refuse(a) }
	switch {
	case a.waits:
		a.bound(ends.Add(patience))
		b.waits, b.waitEnds = true, max(b.waitEnds, ends)
		r.p.timers.start(&a.over, ends)
		b.extendTicket()
	case b.waits:
		r.refuse(a)
	}
	b.pool.mark()
}

// refuse answers a caller whose wait is over, as soon as a view as new as now shows that there
// is no slot for it.
func (r *repeatable) refuse(a *caller) {
	r.p.reads.whenCurrent(a.call, func() {
		if a.refuseBy == 0 {
			a.refuseBy = r.p.now.Add(refuseGrace)
		}
		b, pool := r.borrow, r.p.view.Pool(r.borrow.pool.id)
		full := pool.Full() && !pool.InDoubt(r.p.now)
		if b.phase == waiting && (full || r.p.now >= a.refuseBy && b.isShort(pool)) {
			r.leave(a, ErrNoSlot)
			return
		}
		a.after(failurePause, func() { r.refuse(a) })
	})
}

// leave answers a caller that waits no longer. When all have gone, the borrow keeps its place for
// Config.ResumeGrace, unless the one that came last did not wait, or one has withdrawn. A client
// that leaves the line by a repeat without a wait may be noticed to have gone after that repeat.
func (r *repeatable) leave(a *caller, why error) {
	r.callers = without(r.callers, a)
	r.p.timers.stop(&a.over)
	a.quit = nil
	answer := Answer{Err: why}
	if why == ErrNoSlot {
		answer.Place = r.borrow.rank()
	}
	a.answer(answer)
	switch {
	case len(r.callers) > 0 || r.borrow.phase == done:
	case !r.last && r.p.cfg.ResumeGrace > 0 && (errors.Is(why, ErrPlaceKept) || errors.Is(why, ErrNoSlot)):
		r.p.timers.start(&r.grace, r.p.now.Add(r.p.cfg.ResumeGrace))
	default:
		r.borrow.finish(Answer{Err: why})
	}
}

// settle gives the answer of the borrow to its callers. Without a caller, a lease is kept for
// what is left of Config.ResumeGrace.
func (r *repeatable) settle(a Answer) {
	left := r.p.cfg.ResumeGrace
	if r.grace.index != 0 {
		left = r.grace.at.Sub(r.p.now)
	}
	r.p.timers.stop(&r.grace)
	r.p.timers.stop(&r.finder)
	delete(r.borrow.pool.repeatable, r.borrow.request)
	callers := r.callers
	r.callers = nil
	if len(callers) == 0 {
		r.p.takeBackIn(left, &a)
		return
	}
	if len(callers) > 1 { // one of them holds the lease although another one may not be told
		a.Grant.basis.renewal, a.Grant.Resumed = true, true
	}
	for _, c := range callers {
		left := time.Duration(0)
		if c.over.index != 0 {
			left = c.over.at.Sub(r.p.now)
		}
		r.p.timers.stop(&c.over)
		c.quit = nil
		if c.late && isRefusal(a.Err) || a.Err == nil && a.Grant.basis.sent < c.came { // it may have been true only before this caller came
			again := r.p.newBorrow(c.call, r.borrow.pool.id)
			again.wish = *c.wish
			r.p.repeat(again, left)
		} else {
			c.answer(a)
		}
	}
}

// isRefusal reports whether an answer to a borrow says something about the pool, the line or
// the session, which must have been so while its call was under way.
func isRefusal(err error) bool {
	return err != nil && !errors.Is(err, ErrUnavailable) && !errors.Is(err, ErrClosed)
}

// noteRequested looks at the borrow that waits with the request key of a slot which another
// peer has claimed.
func (p *pools) noteRequested(e *entry.Entry) {
	if ps := p.byID[e.Key.Pool]; ps != nil && !e.Slot.Request.IsZero() {
		if r := ps.repeatable[e.Slot.Request]; r != nil && r.borrow.phase == waiting {
			p.timers.start(&r.finder, p.now)
		}
	}
}

// lookForSlot calls find for the borrow of a caller.
func (ps *poolState) lookForSlot(b *borrow) {
	if r := ps.repeatable[b.request]; r != nil && r.borrow == b {
		r.find()
	}
}

// find takes a borrow out of the line whose key has a slot, so that it resumes.
func (r *repeatable) find() {
	b := r.borrow
	switch s := r.p.view.Pool(b.pool.id).Requested(b.request); {
	case s == nil || b.phase != waiting:
	case r.p.feed.mode != live || s.InDoubt(r.p.now):
		r.p.timers.start(&r.finder, r.p.now.Add(failurePause))
	default:
		b.leaveLine()
		b.backToQueue()
	}
}

// resume answers a borrow with the lease that was granted for its request key. It writes the
// slot again with the time that is left: the compare-and-swap proves that the lease lives, and
// that no peer takes it back because an earlier caller has gone.
func (b *borrow) resume(pool *rules.Pool, s *rules.Slot) {
	now := b.p.now
	switch {
	case s.Value.Asked != entry.Span(b.ttl.Truncate(time.Millisecond)) || pool.Terms() != b.terms:
		if b.current {
			b.finish(Answer{Err: ErrKeyReused})
		} else if b.phase == arrived {
			b.refuseLater()
		}
	case s.Excluded():
		b.pool.sweep(s)
		b.pool.markLater()
	case s.InDoubt(now), s.Ended(now), s.Expiring(now), !s.Good() && pool.InUse() > pool.Size():
		b.pool.markLater()
	default:
		b.leaveLine()
		b.to(resuming)
		key, value := rules.SlotKey(b.pool.id, s.Position), s.Value
		// Not less than was promised, in whole milliseconds, and not more than was asked for.
		left := max(min((s.Left(now)+time.Millisecond-1).Truncate(time.Millisecond), b.ttl), time.Second)
		value.TTL, value.Fence = entry.Span(left), s.Fence
		b.p.writes.put(b.p.value(key, value, s.Revision, left), func(r resolution) { b.resumed(key, r, left, now) })
	}
}

func (b *borrow) resumed(key entry.Key, r resolution, left time.Duration, sent Instant) {
	if b.phase != resuming {
		return
	}
	s := b.p.view.Pool(key.Pool).Slot(key.N)
	switch {
	case r.result == refused:
		if !r.learnt {
			b.pool.pause(failurePause)
		}
		b.backToQueue()
	case r.result != written:
		b.finish(Answer{Err: ErrUnavailable})
	case s == nil || s.Revision != r.revision || !s.Live(): // it has ended, or was renewed
		b.backToQueue()
	default:
		if grant, ok := b.p.grantAgain(s, left, sent); ok {
			b.finish(Answer{Grant: grant})
		} else {
			b.finish(Answer{Err: ErrUnavailable})
		}
	}
}

// extendTicket writes the ticket of a borrow with a request key again, if its callers wait for
// longer than it lives.
func (b *borrow) extendTicket() {
	t := b.p.view.Pool(b.pool.id).TicketAt(b.ticket.key)
	if t == nil || !b.ticket.stands() || b.waitEnds <= b.ticket.until || b.p.feed.mode != live || b.p.view.Expiring(t.Key, b.p.now) {
		return
	}
	value := t.Value
	value.Place = t.Place
	b.p.writes.put(b.p.value(t.Key, value, t.Revision, b.ticketLife()), func(resolution) {})
}

// ticketLife returns how long the borrow's ticket is to live in the bucket. That of a borrow
// with a request key lives longer than the wait, since its callers may wait again.
func (b *borrow) ticketLife() time.Duration {
	left := b.waitEnds.Sub(b.p.now)
	if b.request.IsZero() {
		return left
	}
	return max(left, rules.EnqueuedLife)
}
