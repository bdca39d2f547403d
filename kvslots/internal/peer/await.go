package peer

import (
	"cmp"
	"errors"

	"github.com/kvslots/kvslots/kvslots/internal/entry"
	"github.com/kvslots/kvslots/kvslots/internal/rules"
)

// await is a call of Await: it waits for the slot that a session has enqueued for.
type await struct {
	p       *Peer
	call    *call
	pool    *poolState
	session entry.Hash
	place   uint64 // of the ticket that it waits with; 0: none was seen
	lock    bool
	certain bool  // the view was as new as the call, when it was exact
	why     error // why the call ends without a slot; nil while it waits
	hasLeft bool  // this call has left the line
	marked  bool  // this call has written, or is writing, that the session knows of its slot
	busy    bool  // a write is under way
	expiry  timer
}

func (r Await) begin(p *Peer, c *call) {
	c.useSession(r.Session)
	a := &await{p: p, call: c, pool: p.pools.of(r.Pool), session: r.Session, lock: r.Lock}
	put(&a.pool.awaits, r.Session, append(a.pool.awaits[r.Session], a))
	c.bound(p.now.Add(r.Wait + patience))
	c.reload, c.quit = a.look, a.stop
	a.expiry.fire = func() { a.stop(ErrNoSlot) }
	p.timers.start(&a.expiry, p.now.Add(r.Wait))
	a.look()
}

// stop ends an await. It first takes the session's ticket out of the line, unless
// why says that the place is to be kept.
func (a *await) stop(why error) {
	switch {
	case errors.Is(why, ErrClosed), errors.Is(why, ErrUnavailable):
		a.end(Answer{Err: why})
	case a.why != nil: // it is leaving the line already, with the first reason
	case errors.Is(why, ErrPlaceKept) && a.busy && a.marked: // the slot is about to be answered
	case errors.Is(why, ErrPlaceKept):
		a.end(Answer{Err: why})
	default:
		a.why = why
		a.call.bound(a.p.now.Add(patience))
		if a.certain {
			a.step()
		}
	}
}

// gaveUp reports whether the await ended for another reason than its time: then the
// caller is gone.
func (a *await) gaveUp() bool { return a.why != nil && !errors.Is(a.why, ErrNoSlot) }

func (a *await) end(answer Answer) {
	if !a.call.isOpen() || a.call.parked != nil {
		return
	}
	a.p.timers.stop(&a.expiry)
	ps := a.pool
	drop(ps.awaits, a.session, a)
	a.call.quit = nil
	a.call.answer(answer)
	ps.mark()
}

// look calls step when the view is exact and as new as now.
func (a *await) look() {
	a.certain = false
	a.p.reads.whenCurrent(a.call, func() {
		a.certain = true
		a.step()
	})
}

// enqueuedChanged schedules the awaits of a session in a pool, because its ticket or
// its slot there has changed.
func (ps *poolState) enqueuedChanged(session entry.Hash) {
	for _, a := range ps.awaits[session] {
		if a.certain && !a.busy {
			ps.p.after(0, func() { a.step() })
		}
	}
}

// step does what the status of the session's ticket or slot in the view calls for.
func (a *await) step() {
	if a.busy || !a.call.isOpen() || a.p.watch.mode != live {
		return
	}
	pool := a.p.view.Pool(a.pool.id)
	e := a.p.view.EnqueuedIn(pool, a.session, a.p.now)
	if pool.Registered() && pool.Terms().Lock != a.lock && e.Status != rules.Spent { // a session may have enqueued under other terms
		e = rules.Enqueued{}
	}
	if a.place = cmp.Or(a.place, e.Place()); e.Place() != a.place { // of a later Enqueue
		e = rules.Enqueued{}
	}
	alive := a.p.view.Alive(a.session)
	switch {
	case !a.p.view.Exact() && (!alive || e.Status != rules.Queued && e.Status != rules.Served):
		a.p.reads.whenExact(func() { a.step() })
	case !alive:
		a.end(Answer{Err: ErrSessionGone})
	case e.Status == rules.Doubtful:
		a.p.after(failurePause, func() { a.step() })
	case e.Status == rules.Unserved: // no caller was answered, and the ticket stands again
		a.busy = true
		a.p.writes.release(rules.SlotKey(a.pool.id, e.Slot.Position), e.Slot.Revision, func(Ack) {
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
	case e.Status == rules.Served && a.gaveUp():
		a.decline(e.Slot, e.Ticket)
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
	m := a.p.purge(t.Key, t.Revision)
	m.Author = a.p.randomNumber()
	a.put(m, func(f resolution) {
		e := a.p.view.EnqueuedIn(a.p.view.Pool(a.pool.id), a.session, a.p.now)
		if f.result == written || f.unsure && e.Ticket == nil && e.Slot == nil { // an earlier copy was written
			then()
		}
		a.look()
	})
}

// put sends a message for an await, which is busy until the outcome is known.
func (a *await) put(m entry.Message, then func(resolution)) {
	a.busy = true
	a.p.writes.put(m, func(f resolution) {
		a.busy = false
		if f.result == unknown {
			a.end(Answer{Err: ErrUnavailable})
		} else {
			then(f)
		}
	})
}

// decline returns a slot that was granted after the caller had gone. It keeps a slot
// whose token was the answer to the session's Enqueue.
func (a *await) decline(s *rules.Slot, t *rules.Ticket) {
	if s.Value.Ticket == 0 {
		a.end(Answer{Err: a.why})
		return
	}
	// Read the slot now: it may have another lease by the time the ticket is purged.
	m := a.p.purge(rules.SlotKey(a.pool.id, s.Position), s.Revision)
	m.Ticket = s.Value.Ticket
	decline := func() {
		a.busy = true
		a.p.writes.releaseAs(m, func(k Ack) { // answer after the purge: the session could get the slot with another Await
			a.p.reads.whenReached(k.Revision, func() { a.end(Answer{Err: a.why}) })
		})
	}
	if t == nil { // the ticket is purged already
		decline()
		return
	}
	a.consume(t, decline)
}

// markSeen clears Unseen in the session's slot, which restarts the lease's ttl. From
// then on the peer that claimed the slot cannot withdraw its claim.
func (a *await) markSeen(e rules.Enqueued) {
	s := e.Slot
	if s.Ended(a.p.now) || s.Expiring(a.p.now) {
		return // the slot is about to be purged, which calls step again
	}
	key, value, sent := rules.SlotKey(a.pool.id, s.Position), s.Value, a.p.now
	value.Unseen, value.Fence = false, s.Fence
	ttl := value.TTL.Duration()
	a.marked = value.Ticket != 0
	a.put(a.p.value(key, value, s.Revision, ttl), func(f resolution) {
		// Only an exact view shows for certain what was written, or what replaced it.
		a.busy = true
		a.p.reads.whenExactAt(a.call, f.revision, func() {
			a.busy = false
			a.known(key, value, sent)
		})
	})
}

// known purges the session's ticket and then answers with the lease. The ticket must
// be gone before the session can return the slot: in a view that skipped the slot's
// purge, the ticket would stand again.
func (a *await) known(key entry.Key, value entry.SlotValue, sent Instant) {
	s := a.p.view.Pool(key.Pool).Slot(key.N)
	if s == nil || !s.Live() || s.Value.Lease != value.Lease || s.Value.Unseen {
		a.look()
		return
	}
	t := s.Pool.TicketAt(rules.EnqueuedKey(key.Pool, a.session))
	if t == nil || t.Place != value.Ticket { // or the session has enqueued again
		a.tell(s, sent)
		return
	}
	revision := s.Revision
	a.put(a.p.purge(t.Key, t.Revision), func(f resolution) {
		if f.learnt { // another peer has adopted the ticket meanwhile
			a.known(key, value, sent)
		} else if s := a.p.view.Pool(key.Pool).Slot(key.N); s == nil || s.Revision != revision || !s.Live() {
			a.look() // the lease or the session has ended
		} else {
			a.tell(s, sent)
		}
	})
}

func (a *await) tell(s *rules.Slot, sent Instant) {
	if a.gaveUp() {
		a.decline(s, nil)
		return
	}
	grant, ok := a.p.grantOf(s, s.Value.TTL.Duration(), sent)
	if !ok {
		a.end(Answer{Err: ErrUnavailable})
		return
	}
	grant.basis.renewal = s.Value.Ticket == 0 // the answer to Enqueue had the token
	a.p.counters.Grants++
	a.end(Answer{Grant: grant})
}
