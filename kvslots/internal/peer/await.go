package peer

import (
	"cmp"
	"errors"

	"github.com/kvslots/kvslots/kvslots/internal/entry"
	"github.com/kvslots/kvslots/kvslots/internal/rules"
)

// await is a call of Await: it waits for the slot that a session has enqueued for.
type await struct {
	p        *enqueued
	call     *call
	pool     *poolState
	session  entry.Hash
	place    uint64 // of the ticket that it waits with; 0: none was seen
	lock     bool
	certain  bool   // the view has been live and as new as the latest call of look
	why      error  // why the call ends without a slot; nil while it waits
	hasLeft  bool   // this call has taken the ticket out of the line
	marked   bool   // this call has cleared Unseen in the slot, or is clearing it: see markSeen
	markedBy uint64 // the author number of the write that clears it
	busy     bool   // a write is under way
	freeing  bool   // free was called
	expiry   timer
}

func (p *enqueued) await(c *call, r Await) {
	a := &await{p: p, call: c, pool: p.of(r.Pool), session: r.Session, lock: r.Lock}
	p.awaits[a.key()] = append(p.awaits[a.key()], a)
	a.pool.users++
	c.bound(p.now.Add(r.Wait + patience))
	c.reload, c.quit = a.look, quitFunc(a.stop)
	a.expiry.fire = func() { a.stop(ErrNoSlot) }
	p.timers.start(&a.expiry, p.now.Add(r.Wait))
	a.look()
}

func (a *await) key() sessionPool { return sessionPool{a.pool.id, a.session} }

// stop ends an await. It first takes the session's ticket out of the line, unless
// why says that the place is to be kept.
func (a *await) stop(why error) {
	switch {
	case errors.Is(why, ErrClosed), errors.Is(why, ErrUnavailable):
		a.end(Answer{Err: why})
	case a.why != nil: // it is leaving the line already, with the first reason
	case errors.Is(why, ErrPlaceKept) && a.busy && a.marked: // the call is about to be answered with the slot
	case errors.Is(why, ErrPlaceKept):
		a.end(Answer{Err: why})
	default:
		a.why = why
		a.call.bound(a.p.now.Add(patience))
		a.p.reads.whenLive(a.step)
	}
}

// gaveUp reports whether the await ends because its caller is gone, and not because its
// time is over.
func (a *await) gaveUp() bool { return a.why != nil && !errors.Is(a.why, ErrNoSlot) }

func (a *await) end(answer Answer) {
	if !a.call.isOpen() || a.call.parked != nil {
		return
	}
	a.p.timers.stop(&a.expiry)
	ps := a.pool
	drop(a.p.awaits, a.key(), a)
	ps.users--
	a.call.quit = nil
	a.call.answer(answer)
	ps.mark()
	if (a.why != nil || a.markedBy != 0) && (errors.Is(answer.Err, ErrUnavailable) || errors.Is(answer.Err, ErrClosed)) {
		a.free(func() {})
	}
}

// look calls step when the view is live and as new as now.
func (a *await) look() {
	a.certain = false
	a.p.reads.whenCurrent(a.call, func() {
		a.certain = true
		a.step()
	})
}

// changed schedules the awaits of a session in a pool, because its ticket or
// its slot there has changed.
func (p *enqueued) changed(pool, session entry.Hash) {
	for _, a := range p.awaits[sessionPool{pool, session}] {
		p.reads.whenLive(a.step)
	}
}

// step does what the status of the session's ticket or slot calls for, in a live view.
func (a *await) step() {
	if a.busy || !a.certain || !a.call.isOpen() {
		return
	}
	pool := a.p.view.Pool(a.pool.id)
	e := a.p.view.EnqueuedIn(pool, a.session)
	if pool.Exists() && pool.Terms().Lock != a.lock && e.Status != rules.Spent { // a session may have enqueued under other terms
		e = rules.Enqueued{}
	}
	if a.place = cmp.Or(a.place, e.Place()); e.Place() != a.place { // of a later Enqueue
		e = rules.Enqueued{}
	}
	alive := a.p.view.Alive(a.session)
	switch {
	case !alive:
		a.end(Answer{Err: ErrSessionGone})
	case e.Status == rules.Unserved: // no caller was answered, and the ticket stands again
		a.busy = true
		a.p.writes.discard(rules.SlotKey(a.pool.id, e.Slot.Position), e.Slot.Revision, func(resolution) {
			a.busy = false
			a.look()
		})
	case e.Status == rules.NotEnqueued && a.hasLeft:
		a.end(Answer{Err: a.why})
	case e.Status == rules.NotEnqueued && a.marked: // the lease was granted, and ended before the answer
		a.end(Answer{Err: ErrLeaseExpired})
	case e.Status == rules.NotEnqueued:
		a.end(Answer{Err: ErrNotEnqueued})
	case e.Status == rules.Spent:
		a.consume(e.Ticket, func() { a.marked = true }) // step answers ErrLeaseExpired next, unless the session has ended
	case e.Status == rules.Served && e.Slot.InDoubt(a.p.now):
		a.p.after(failurePause, a.step)
	case e.Status == rules.Served && a.gaveUp():
		a.decline(e.Slot)
	case e.Status == rules.Served:
		a.markSeen(e)
	case a.why != nil:
		a.consume(e.Ticket, func() { a.hasLeft = true })
	case e.Ticket != nil && e.Ticket.Value.Peer != a.p.self.id && e.Ticket.Stands():
		a.busy = true
		a.p.adopt(e.Ticket, func() {
			a.busy = false
			a.step()
		})
	}
}

// consume purges the session's ticket, calls then if the purge was written, and calls
// look.
func (a *await) consume(t *rules.Ticket, then func()) {
	a.put(a.p.purge(t.Key, t.Revision), func(r resolution) {
		if r.result == written {
			then()
		}
		a.look()
	})
}

// put sends a message for an await, which is busy until the outcome is known.
func (a *await) put(m entry.Message, then func(resolution)) *write {
	a.busy = true
	return a.p.writes.put(m, func(r resolution) {
		a.busy = false
		if r.result == written || r.result == refused {
			then(r)
		} else {
			a.end(Answer{Err: ErrUnavailable})
		}
	})
}

// decline returns a slot that was granted after the caller had gone. It keeps a slot
// whose token was the answer to the session's Enqueue.
func (a *await) decline(s *rules.Slot) {
	if s.Value.Ticket == 0 {
		a.end(Answer{Err: a.why})
		return
	}
	a.busy = true
	a.free(func() { a.end(Answer{Err: a.why}) }) // answer after the purge: the session could get the slot with another Await
}

// free takes the await's ticket out of the line, and then purges the slots that were claimed
// for the ticket, except one that another await has marked as seen. It calls done when none
// is left. No caller waits for these purges, so they are repeated if they are refused.
func (a *await) free(done func()) {
	if a.freeing || a.place == 0 {
		return
	}
	a.freeing = true
	a.p.reads.whenLive(func() { a.freeNext(done) })
}

func (a *await) freeNext(done func()) {
	again := func(resolution) { a.p.reads.whenLive(func() { a.freeNext(done) }) }
	pool, session := a.p.view.Pool(a.pool.id), a.p.view.Session(a.session)
	if pool != nil && session != nil {
		if t := pool.Ticket(a.place); t != nil {
			a.p.writes.discard(t.Key, t.Revision, again)
			return
		}
		for _, s := range session.Slots {
			if s.Pool == pool && s.Value.Ticket == a.place && (s.Value.Unseen || s.Author == a.markedBy) {
				a.p.writes.discard(rules.SlotKey(pool.ID, s.Position), s.Revision, again)
				return
			}
		}
	}
	done()
}

// markSeen clears Unseen in the session's slot, which restarts the lease's ttl. From
// then on the peer that claimed the slot cannot withdraw its claim.
func (a *await) markSeen(e rules.Enqueued) {
	s := e.Slot
	if s.Ended(a.p.now) || s.Expiring(a.p.now) || s.UnseenOver(a.p.now) {
		return // the slot is about to be purged, which calls step again
	}
	key, value, sent := rules.SlotKey(a.pool.id, s.Position), s.Value, a.p.now
	value.Unseen, value.Fence, value.TTL = false, s.Fence, max(value.Asked, value.TTL) // a repeat has written what was left
	w := a.put(a.p.value(key, value, s.Revision, value.TTL.Duration()), func(r resolution) {
		if r.result == refused { // if another await has marked the slot, that one answers with it or frees it
			a.marked, a.markedBy = false, 0
			a.look()
			return
		}
		a.leaveAndGrant(key, value, sent)
	})
	if value.Ticket != 0 { // otherwise the answer to Enqueue had the token
		a.marked, a.markedBy = true, w.msg.Author
	}
}

// leaveAndGrant purges the session's ticket and then answers with the lease, which the
// session may return at once.
func (a *await) leaveAndGrant(key entry.Key, value entry.SlotValue, sent Instant) {
	s := a.p.view.Pool(key.Pool).Slot(key.N)
	if s == nil || !s.Live() || s.Value.Lease != value.Lease || s.Value.Unseen {
		a.look()
		return
	}
	t := leftTicket(s)
	if t == nil {
		a.grant(s, sent)
		return
	}
	revision := s.Revision
	a.put(a.p.purge(t.Key, t.Revision), func(r resolution) {
		if r.result == refused { // another peer may have adopted the ticket meanwhile
			a.leaveAndGrant(key, value, sent)
		} else if s := a.p.view.Pool(key.Pool).Slot(key.N); s == nil || s.Revision != revision || !s.Live() {
			a.look() // the lease or the session has ended
		} else {
			a.grant(s, sent)
		}
	})
}

func (a *await) grant(s *rules.Slot, sent Instant) {
	if a.gaveUp() {
		a.decline(s)
		return
	}
	grantOf := a.p.grantOf
	if s.Value.Ticket == 0 { // the answer to Enqueue had the token, and it or a renewal may promise more
		grantOf = a.p.grantAgain
	}
	grant, ok := grantOf(s, s.Value.TTL.Duration(), sent)
	if !ok {
		a.end(Answer{Err: ErrUnavailable})
		return
	}
	grant.basis.renewal, grant.Resumed = s.Value.Ticket == 0, false
	a.p.counters.Grants++
	a.end(Answer{Grant: grant})
}
