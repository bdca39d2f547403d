package peer

import (
	"errors"

	"github.com/kvslots/kvslots/kvslots/internal/entry"
	"github.com/kvslots/kvslots/kvslots/internal/rules"
)

// await waits for what a session has enqueued for.
type await struct {
	p       *Peer
	call    *call
	pool    *poolState
	session entry.Hash
	lock    bool
	certain bool  // the view was as new as the call, when it was exact
	why     error // why it waits no more
	left    bool  // it was this very call that left the line
	seeing  bool  // it has written that the session knows of its slot, and may have ended the ticket by that
	busy    bool  // a write is under way
	expiry  timer
}

func (r Await) begin(p *Peer, c *call) {
	c.useSession(r.Session)
	a := &await{p: p, call: c, pool: p.pool(r.Pool), session: r.Session, lock: r.Lock}
	put(&a.pool.awaits, r.Session, append(a.pool.awaits[r.Session], a))
	c.bound(p.now.Add(r.Wait + patience))
	c.reload, c.quit = a.look, a.stop
	a.expiry.fire = func() { a.stop(ErrNoSlot) }
	p.timers.start(&a.expiry, p.now.Add(r.Wait))
	a.look()
}

// stop notes that an await is over, and why. It leaves the line before it is
// answered, unless its place is to be kept.
func (a *await) stop(why error) {
	switch {
	case errors.Is(why, ErrClosed), errors.Is(why, ErrUnavailable):
		a.end(Answer{Err: why})
	case a.why != nil: // it is leaving the line: its caller gets the outcome that came first
	case errors.Is(why, ErrPlaceKept) && a.busy && a.seeing: // the slot is about to be told
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

// gaveUp reports whether its caller is gone, and not only its time over.
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

// look has a view that is exact, and as new as now, say what has become of it.
func (a *await) look() {
	a.certain = false
	a.p.ask(a.call, func() {
		a.certain = true
		a.step()
	})
}

// enqueuedChanged is called when something has changed about what a session has
// enqueued in a pool.
func (ps *poolState) enqueuedChanged(session entry.Hash) {
	for _, a := range ps.awaits[session] {
		if a.certain && !a.busy {
			ps.p.after(0, func() { a.step() })
		}
	}
}

// step does what is to be done where the view now stands.
func (a *await) step() {
	if a.busy || !a.call.isOpen() || a.p.watch.mode != live {
		return
	}
	pool := a.p.view.Pool(a.pool.id)
	e := a.p.enqueuedIn(pool, a.session)
	if pool.Registered() && pool.Terms().Lock != a.lock && e.status != spent { // that may have been under other terms
		e = enqueued{}
	}
	alive := a.p.view.Alive(a.session)
	switch {
	case !a.p.view.Exact() && (!alive || e.status != queued && e.status != served):
		a.p.whenExact(func() { a.step() })
	case !alive:
		a.end(Answer{Err: ErrSessionGone})
	case e.status == doubtful:
		a.p.after(failurePause, func() { a.step() })
	case e.status == void: // no caller was told, and the ticket stands again
		a.busy = true
		a.p.release(rules.SlotKey(a.pool.id, e.slot.Position), e.slot.Revision, func(Ack) {
			a.busy = false
			a.look()
		})
	case e.status == absent && a.left:
		a.end(Answer{Err: a.why})
	case e.status == absent && a.seeing: // it was granted, and over before it could be told
		a.end(Answer{Err: ErrLeaseExpired})
	case e.status == absent:
		a.end(Answer{Err: ErrNotEnqueued})
	case e.status == spent:
		a.consume(e.ticket, func() { a.seeing = true }) // that is told next, unless the session has ended
	case e.status == served && a.gaveUp():
		a.decline(e.slot, e.ticket)
	case e.status == served:
		a.see(e)
	case a.why != nil:
		a.consume(e.ticket, func() { a.left = true })
	case e.ticket != nil && e.ticket.Value.Peer != a.p.self.id && e.ticket.Stands():
		a.busy = true
		a.p.adopt(e.ticket, func() {
			a.busy = false
			a.step()
		})
	}
}

// consume purges the session's ticket, calls then if that was done, and looks
// again.
func (a *await) consume(t *rules.Ticket, then func()) {
	if t == nil {
		a.look()
		return
	}
	m := a.p.purge(t.Key, t.Revision)
	m.Author = a.p.randomNumber()
	a.put(m, func(f fate) {
		e := a.p.enqueuedIn(a.p.view.Pool(a.pool.id), a.session)
		if f.result == written || f.unsure && e.ticket == nil && e.slot == nil { // an earlier copy did it
			then()
		}
		a.look()
	})
}

// put sends a message for an await, which does nothing else meanwhile.
func (a *await) put(m entry.Message, then func(fate)) {
	a.busy = true
	a.p.put(m, func(f fate) {
		a.busy = false
		if f.result == unknown {
			a.end(Answer{Err: ErrUnavailable})
		} else {
			then(f)
		}
	})
}

// decline gives back a slot that came when its caller had gone. A slot whose
// token the session was told when it enqueued stays.
func (a *await) decline(s *rules.Slot, t *rules.Ticket) {
	if s.Value.Ticket == 0 {
		a.end(Answer{Err: a.why})
		return
	}
	// The slot may be another's by the time its ticket has gone.
	m := a.p.purge(rules.SlotKey(a.pool.id, s.Position), s.Revision)
	m.Ticket = s.Value.Ticket
	decline := func() {
		a.busy = true
		a.p.releaseAs(m, func(k Ack) { // else the session could come back and have it
			a.p.whenReached(k.Revision, func() { a.end(Answer{Err: a.why}) })
		})
	}
	if t == nil { // it was taken out of the line before
		decline()
		return
	}
	a.consume(t, decline)
}

// see makes the session's slot one that it knows of: its lease starts again.
// The peer that claimed it for the session cannot withdraw it any more.
func (a *await) see(e enqueued) {
	s := e.slot
	if s.Ended(a.p.now) || s.Expiring(a.p.now) {
		return // it is about to be purged, which is then seen
	}
	key, value, sent := rules.SlotKey(a.pool.id, s.Position), s.Value, a.p.now
	value.Unseen, value.Fence = false, s.Fence
	ttl := value.TTL.Duration()
	a.seeing = value.Ticket != 0
	a.put(a.p.value(key, value, s.Revision, ttl), func(f fate) {
		// Only an exact view is sure to show what was written, or what came after it.
		a.busy = true
		a.p.askFrom(a.call, f.revision, func() {
			a.busy = false
			a.known(key, value, sent)
		})
	})
}

// known takes the session's ticket out of the line, before the slot can be given
// back: a view that skipped its purge would take the ticket for one that stands
// again. Then the lease is told.
func (a *await) known(key entry.Key, value entry.SlotValue, sent Instant) {
	s := a.p.view.Pool(key.Pool).Slot(key.N)
	if s == nil || !s.Live() || s.Value.Lease != value.Lease || s.Value.Unseen {
		a.look()
		return
	}
	t := s.Pool.TicketAt(enqueuedKey(key.Pool, a.session))
	if t == nil || value.Ticket == 0 {
		a.tell(s, sent)
		return
	}
	revision := s.Revision
	a.put(a.p.purge(t.Key, t.Revision), func(f fate) {
		if f.learnt { // another peer has made the ticket its own meanwhile
			a.known(key, value, sent)
		} else if s := a.p.view.Pool(key.Pool).Slot(key.N); s == nil || s.Revision != revision {
			a.look()
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
	grant.rests.renewal = s.Value.Ticket == 0 // its token was told when it enqueued
	a.p.counters.Grants++
	a.end(Answer{Grant: grant})
}
