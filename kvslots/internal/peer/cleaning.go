package peer

import (
	"maps"
	"slices"

	"github.com/kvslots/kvslots/kvslots/internal/entry"
	"github.com/kvslots/kvslots/kvslots/internal/rules"
)

// cleanUp ends what has lasted long enough. The clock only decides when this peer
// writes: a lease is live until its purge is in the stream.
func (p *Peer) cleanUp() {
	if p.watch.mode != live || p.closing {
		return
	}
	p.view.Forget(p.now)
	p.due = p.view.Due(dueRetry, dueBatch, p.due[:0], p.now)
	for _, d := range p.due {
		switch {
		case d.Marker:
			p.release(d.Key, d.Revision, nil)
		case d.Garbage && !p.view.Exact():
			p.whenExact(func() {})
		case d.Refresh:
			p.adopt(d.Ticket, func() {})
		case d.Slot != nil:
			p.endSlot(d)
		case d.Session != nil:
			p.endSessionAt(d)
		default:
			p.release(d.Key, d.Revision, nil)
		}
	}
	if p.view.Waits() {
		p.view.PassOver(p.now)
		p.view.Settle(p.now)
		p.view.EachAble(func(pool *rules.Pool) { p.touched(pool) })
	}
	p.names.plan()
}

// endSlot purges a slot whose lease has lasted its time. One whose session enqueued
// for it, and may yet ask what became of it, leaves word in the ticket first: once
// the slot has gone, nothing else says that the ticket has been served.
func (p *Peer) endSlot(d rules.DueKey) {
	s := d.Slot
	m := p.purge(d.Key, d.Revision)
	if !d.Garbage {
		m.Ticket = s.Value.Ticket
	}
	switch t := s.Pool.Ticket(s.Value.Ticket); {
	case t == nil || !t.Value.Enqueued() || d.Garbage:
	case !s.Value.Unseen:
		p.release(t.Key, t.Revision, nil)
	default:
		value := t.Value
		value.Spent, value.Place = true, t.Place
		p.put(p.value(t.Key, value, t.Revision, rules.EnqueuedLife), func(f fate) {
			if f.result == written {
				p.releaseAs(m, nil)
			} // else it comes up again
		})
		return
	}
	p.releaseAs(m, nil)
}

// endSessionAt ends a session whose time is over: when the stream's leader has been
// heard after that, and the session has not been refreshed for a while since. Time
// without a leader ends no session.
func (p *Peer) endSessionAt(d rules.DueKey) {
	if d.Key == p.self.key() {
		return
	}
	purge := func() {
		if s := p.view.Session(d.Key.Session); !s.Alive() || s.Revision != d.Revision || s.Ends > p.now {
			return
		}
		p.release(d.Key, d.Revision, func(a Ack) {
			if a.Outcome == Written {
				p.whenReached(a.Revision, func() { p.clearSession(d.Key.Session) })
			}
		})
	}
	if p.cfg.Sole && d.Session.Value.Kind == entry.SessionPeer {
		purge()
		return
	}
	p.ask(nil, func() { p.after(endingPause, purge) })
}

// afterLoad is called when the view has become live.
func (p *Peer) afterLoad() {
	for _, ps := range p.allPools() {
		ps.allChanged = true
		ps.mark()
	}
	for _, c := range p.calls.all() {
		if c.reload != nil {
			c.reload()
		}
	}
	p.purgeOrphans()
	p.cleanUp()
}

// purgeOrphans purges this peer's tickets whose borrows have ended. They were purged
// before, but the stream may have lost that.
func (p *Peer) purgeOrphans() {
	s := p.view.Session(p.self.id)
	if s == nil {
		return
	}
	for _, t := range s.Tickets {
		if ps := p.pools[t.Key.Pool]; !t.Value.Enqueued() && (ps == nil || ps.tickets[t.Key] == nil) {
			p.release(t.Key, t.Revision, nil)
		}
	}
}

// restartBorrows is for a view that is built anew: the claims that were on their way
// mean nothing in it, and their borrows are answered as unavailable. Those that wait
// keep their places if the load shows their tickets, and else come again.
func (p *Peer) restartBorrows() {
	for _, ss := range p.sessions {
		ss.stands = 0
	}
	for _, ps := range p.allPools() {
		promoting := slices.Collect(maps.Values(ps.promoting))
		sortByPlace(promoting)
		for _, b := range promoting {
			b.finish(Answer{Err: ErrUnavailable})
		}
		ps.flight = rules.InFlight{}
		ps.claims, ps.tickets, ps.promoting, ps.config = nil, nil, nil, nil
		ps.heldUntil, ps.generation, ps.wantsExact = 0, 0, false
		ps.nextName, ps.freeNames = 0, nil
	}
	for _, c := range p.calls.all() {
		b := c.borrow
		if b == nil {
			continue
		}
		b.current, b.confirmed = false, false
		switch b.phase {
		case arrived, done:
		case joining, waiting:
			b.expectTicket()
		default:
			b.ticket = ticket{} // it is purged when the load shows it
			b.finish(Answer{Err: ErrUnavailable})
		}
	}
}

// expectTicket has a ticket looked for by the load.
func (b *borrow) expectTicket() {
	key := b.ticket.key
	put(&b.pool.tickets, key, b)
	b.pool.flight.Joining++
	if b.phase == waiting {
		b.to(joining)
		b.ticket.revision, b.ticket.place = 0, 0
		b.p.whenReached(0, func() { b.ticketMissing(key) })
	}
}
