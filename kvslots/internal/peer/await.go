package peer

import (
	"errors"
	"time"

	"github.com/kvslots/kvslots/kvslots/internal/entry"
	"github.com/kvslots/kvslots/kvslots/internal/rules"
)

// await waits for what a session has enqueued for.
type await struct {
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
	p.useSession(c, r.Session)
	a := &await{call: c, pool: p.pool(r.Pool), session: r.Session, lock: r.Lock}
	put(&a.pool.awaits, r.Session, append(a.pool.awaits[r.Session], a))
	p.bound(c, p.now.Add(r.Wait+patience))
	c.quit = func(why error) { p.stopWaiting(a, why) }
	a.expiry.fire = func() { p.stopWaiting(a, ErrNoSlot) }
	p.timers.start(&a.expiry, p.now.Add(r.Wait))
	p.look(a)
}

// stopWaiting notes that an await is over, and why. It leaves the line before it is
// answered, unless its place is to be kept.
func (p *Peer) stopWaiting(a *await, why error) {
	if a.why == nil || !errors.Is(why, ErrNoSlot) {
		a.why = why
	}
	switch {
	case errors.Is(why, ErrPlaceKept) && a.busy && a.seeing: // the slot is about to be told
		a.why = nil
	case errors.Is(why, ErrPlaceKept), errors.Is(why, ErrClosed), errors.Is(why, ErrUnavailable):
		p.endAwait(a, Answer{Err: why})
	default:
		p.bound(a.call, p.now.Add(patience))
		p.stayUntilLeft(a)
		if a.certain {
			p.stepAwait(a)
		}
	}
}

// stayUntilLeft keeps an await that is over until it has left the line: a caller
// that gives up now gets the outcome that came first.
func (p *Peer) stayUntilLeft(a *await) {
	a.call.quit = func(why error) {
		if errors.Is(why, ErrUnavailable) || errors.Is(why, ErrClosed) {
			p.endAwait(a, Answer{Err: why})
		} else {
			p.stayUntilLeft(a)
		}
	}
}

func (p *Peer) endAwait(a *await, answer Answer) {
	if p.calls.open[a.call.id] != a.call || a.call.parked {
		return
	}
	p.timers.stop(&a.expiry)
	ps := a.pool
	if left := without(ps.awaits[a.session], a); len(left) > 0 {
		ps.awaits[a.session] = left
	} else {
		delete(ps.awaits, a.session)
	}
	a.call.quit = nil
	p.answer(a.call, answer)
	p.mark(ps)
}

// look has a view that is exact, and as new as now, say what has become of it.
func (p *Peer) look(a *await) {
	a.certain = false
	p.ask(a.call, func() {
		a.certain = true
		p.stepAwait(a)
	})
}

// enqueuedChanged is called when something has changed about what a session has
// enqueued in a pool.
func (p *Peer) enqueuedChanged(ps *poolState, session entry.Hash) {
	for _, a := range ps.awaits[session] {
		if a.certain && !a.busy {
			p.after(0, func() { p.stepAwait(a) })
		}
	}
}

// stepAwait does what is to be done where the view now stands.
func (p *Peer) stepAwait(a *await) {
	if a.busy || p.calls.open[a.call.id] != a.call || p.watch.mode != live {
		return
	}
	pool := p.world.Pool(a.pool.id)
	e := p.enqueuedIn(pool, a.session)
	if pool.Registered() && pool.Terms().Lock != a.lock && e.status != spent { // that may have been under other terms
		e = enqueued{}
	}
	exact := p.world.Exact()
	switch {
	case !exact && (e.status == absent || e.status == spent || !p.world.Alive(a.session)), e.doubtful && !exact:
		p.whenExact(func() { p.stepAwait(a) })
	case !p.world.Alive(a.session):
		p.endAwait(a, Answer{Err: ErrSessionGone})
	case e.doubtful:
		p.after(failurePause, func() { p.stepAwait(a) })
	case e.status == absent && a.left:
		p.endAwait(a, Answer{Err: a.why})
	case e.status == absent && a.seeing: // it was granted, and over before it could be told
		p.endAwait(a, Answer{Err: ErrLeaseExpired})
	case e.status == absent:
		p.endAwait(a, Answer{Err: ErrNotEnqueued})
	case e.status == spent:
		p.consume(a, e.ticket, func() { p.endAwait(a, Answer{Err: ErrLeaseExpired}) })
	case e.status == served && a.why != nil && !errors.Is(a.why, ErrNoSlot):
		p.declineSlot(a, e)
	case e.status == served:
		p.seeSlot(a, e)
	case a.why != nil:
		p.consume(a, e.ticket, func() { a.left = true })
	case e.ticket != nil && e.ticket.Value.Peer != p.self.id && e.ticket.Stands():
		a.busy = true
		p.adopt(e.ticket, func(bool) {
			a.busy = false
			p.stepAwait(a)
		})
	}
}

// consume purges the session's ticket, calls then if that was done, and looks
// again.
func (p *Peer) consume(a *await, t *rules.Ticket, then func()) {
	if t == nil {
		p.look(a)
		return
	}
	m := p.purge(t.Key, t.Revision)
	m.Author = p.randomNumber()
	p.authored[m.Author] = 0
	a.busy = true
	w := p.send(m, nil)
	w.done = func(k Ack) {
		a.busy = false
		own := p.authored[m.Author] != 0
		if k.Outcome != Conflict {
			delete(p.authored, m.Author)
		}
		switch k.Outcome {
		case Written:
			then()
			p.whenReached(k.Revision, func() { p.look(a) })
		case Conflict:
			p.whenReached(k.Revision, func() {
				own = own || p.authored[m.Author] != 0
				delete(p.authored, m.Author)
				e := p.enqueuedIn(p.world.Pool(a.pool.id), a.session)
				if own || len(w.ids) > 1 && e.ticket == nil && e.slot == nil { // an earlier copy did it
					then()
				}
				p.look(a)
			})
		default:
			p.endAwait(a, Answer{Err: ErrUnavailable})
		}
	}
}

// declineSlot gives back a slot that came when its caller had gone. A slot whose
// token the session was told when it enqueued stays.
func (p *Peer) declineSlot(a *await, e enqueued) {
	if e.slot.Value.Ticket == 0 {
		p.endAwait(a, Answer{Err: a.why})
		return
	}
	decline := func() {
		m := p.purge(rules.SlotKey(a.pool.id, e.slot.Position), e.slot.Revision)
		m.Ticket = e.slot.Value.Ticket
		a.busy = true
		p.releaseAs(m, func(k Ack) { // else the session could come back and have it
			p.whenReached(k.Revision, func() { p.endAwait(a, Answer{Err: a.why}) })
		})
	}
	if e.ticket == nil { // it was taken out of the line just after it had been served
		decline()
		return
	}
	p.consume(a, e.ticket, decline)
}

// seeSlot makes the session's slot one that it knows of: its lease starts again.
// The peer that claimed it for the session cannot withdraw it any more.
func (p *Peer) seeSlot(a *await, e enqueued) {
	s := e.slot
	if s.Ended(p.now) || s.Expiring(p.now) {
		return // it is about to be purged, which is then seen
	}
	key, value, sent := rules.SlotKey(a.pool.id, s.Position), s.Value, p.now
	value.Unseen, value.Fence = false, s.Fence
	ttl := value.TTL.Duration()
	a.busy, a.seeing = true, value.Ticket != 0
	p.send(p.value(key, value, s.Revision, ttl), func(k Ack) {
		switch k.Outcome {
		case Written:
			p.whenReached(k.Revision, func() { p.slotKnown(a, key, value, sent) })
		case Conflict:
			p.whenReached(k.Revision, func() { p.slotKnown(a, key, value, sent) })
		default:
			a.busy = false
			p.endAwait(a, Answer{Err: ErrUnavailable})
		}
	})
}

// slotKnown takes the session's ticket out of the line, before the slot can be given
// back: a view that skipped its purge would take the ticket for one that stands
// again. Then the lease is told.
func (p *Peer) slotKnown(a *await, key entry.Key, value entry.SlotValue, sent Instant) {
	a.busy = false
	s := p.world.Pool(key.Pool).Slot(key.N)
	if s == nil || !s.Live() || s.Value.Lease != value.Lease || s.Value.Unseen {
		p.look(a)
		return
	}
	t := s.Pool.TicketAt(enqueuedKey(key.Pool, a.session))
	if t == nil || value.Ticket == 0 {
		p.tellSlot(a, s, value, sent)
		return
	}
	a.busy = true
	revision := s.Revision
	p.send(p.purge(t.Key, t.Revision), func(k Ack) {
		a.busy = false
		s := p.world.Pool(key.Pool).Slot(key.N)
		switch {
		case k.Outcome != Written && k.Outcome != Conflict:
			p.endAwait(a, Answer{Err: ErrUnavailable})
		case s == nil || s.Revision != revision:
			p.look(a)
		default:
			p.tellSlot(a, s, value, sent)
		}
	})
}

func (p *Peer) tellSlot(a *await, s *rules.Slot, value entry.SlotValue, sent Instant) {
	if a.why != nil && !errors.Is(a.why, ErrNoSlot) && value.Ticket == 0 {
		p.endAwait(a, Answer{Err: a.why}) // its token was told when it enqueued
		return
	}
	if a.why != nil && !errors.Is(a.why, ErrNoSlot) {
		m := p.purge(rules.SlotKey(a.pool.id, s.Position), s.Revision)
		p.releaseAs(m, nil)
		p.endAwait(a, Answer{Err: a.why})
		return
	}
	ttl := remainingTTL(value.TTL.Duration(), p.now.Sub(sent))
	if ttl < time.Second {
		p.endAwait(a, Answer{Err: ErrUnavailable})
		return
	}
	p.world.EndAt(s, s.Revision, p.now.Add(ttl))
	p.counters.Grants++
	p.endAwait(a, Answer{Grant: Grant{Position: s.Position, Fence: s.Fence, TTL: ttl, At: p.now, Nonce: value.Nonce,
		rests: granted{key: rules.SlotKey(a.pool.id, s.Position), revision: s.Revision, ttl: value.TTL.Duration(), sent: sent}}})
}

func without[T comparable](list []T, x T) []T {
	for i, y := range list {
		if y == x {
			return append(list[:i:i], list[i+1:]...)
		}
	}
	return list
}
