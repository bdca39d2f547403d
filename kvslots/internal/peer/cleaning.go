package peer

import (
	"github.com/kvslots/kvslots/kvslots/internal/entry"
	"github.com/kvslots/kvslots/kvslots/internal/rules"
)

// cleanUp purges the keys that are due. The clock only decides when this peer writes:
// a lease is live until its purge is in the stream. A key stays due until the view shows
// its purge, which may take seconds: until then the purge is not begun again.
func (p *Peer) cleanUp() {
	if p.watch.mode != live || p.closing {
		return
	}
	p.view.Forget(p.now)
	for _, d := range p.view.Due(dueRetry, dueBatch, p.now) {
		if p.ending[d.Key] == d.Revision {
			continue
		}
		switch {
		case d.Marker:
			p.writes.release(d.Key, d.Revision, nil)
		case d.Garbage && !p.view.Exact():
			p.reads.whenExact(func() {})
		case d.Refresh:
			p.adopt(d.Ticket, func() {})
		case d.Slot != nil:
			p.endSlot(d)
		case d.Session != nil:
			p.endSessionAt(d)
		default:
			p.writes.release(d.Key, d.Revision, nil)
		}
	}
	if p.view.Waits() {
		p.view.PassOver(p.now)
		p.view.Settle(p.now)
	}
	p.closer.plan()
}

// leftTicket returns the enqueued ticket that a live slot was claimed for, if it is still
// there. The slot may only be purged when the ticket is out of the line: in a view that
// skips the slot's purge, the ticket would stand again.
func leftTicket(s *rules.Slot) *rules.Ticket {
	if t := s.Pool.Ticket(s.Value.Ticket); t != nil && t.Value.Enqueued() {
		return t
	}
	return nil
}

// endSlot purges a slot whose lease is over. It first takes the enqueued ticket out of the
// line that it was claimed for. It purges the ticket, or marks it as spent if the
// session has not called Await since: once the slot is purged, only the ticket says that it
// was served.
func (p *Peer) endSlot(d rules.DueKey) {
	s := d.Slot
	m := p.purge(d.Key, d.Revision)
	if d.Garbage {
		p.writes.releaseAs(m, nil)
		return
	}
	done := p.expired(s)
	m.Ticket = s.Value.Ticket
	t := leftTicket(s)
	if t == nil {
		p.writes.releaseAs(m, done)
		return
	}
	leaves := p.purge(t.Key, t.Revision)
	if s.Value.Unseen {
		value := t.Value
		value.Spent, value.Place = true, t.Place
		leaves = p.value(t.Key, value, t.Revision, rules.EnqueuedLife)
	}
	put(&p.ending, d.Key, d.Revision)
	p.writes.put(leaves, func(f resolution) {
		if f.result == written {
			p.writes.releaseAs(m, done)
		} else { // cleanUp tries again
			p.ended(d.Key, d.Revision)
		}
	})
}

// endSessionAt ends a session whose idle time is over. It first sends a barrier, and
// then waits for endingPause whether the session is refreshed: time without a leader
// must not end a session.
func (p *Peer) endSessionAt(d rules.DueKey) {
	if d.Key == p.self.key() {
		return
	}
	put(&p.ending, d.Key, d.Revision)
	purge := func() {
		if s := p.view.Session(d.Key.Session); !s.Alive() || s.Revision != d.Revision || s.Ends > p.now {
			p.ended(d.Key, d.Revision)
			return
		}
		p.writes.release(d.Key, d.Revision, func(a Ack) {
			if a.Outcome == Written {
				p.reads.whenReached(a.Revision, func() { p.clearSession(d.Key.Session) })
			}
		})
	}
	if p.cfg.Sole && d.Session.Value.Kind == entry.SessionPeer {
		purge()
		return
	}
	p.reads.whenCurrent(nil, func() { p.after(endingPause, purge) })
}

// ended records that no purge of a key at a revision is under way any more.
func (p *Peer) ended(key entry.Key, revision uint64) {
	if p.ending[key] == revision {
		delete(p.ending, key)
	}
}

// afterLoad is called when the view has become live.
func (p *Peer) afterLoad() {
	for _, ps := range p.pools.all() {
		ps.allChanged = true
		ps.mark()
	}
	for _, c := range p.calls.all() {
		if c.reload != nil {
			c.reload()
		}
	}
	p.cleanUp()
}

// restartBorrows prepares the borrows for a new view. Claims in flight mean nothing in
// it, so it answers their borrows with ErrUnavailable. Waiting borrows keep their places
// if the new view shows their tickets, and otherwise go back to the queue.
func (p *Peer) restartBorrows() {
	for _, ss := range p.sessions {
		ss.stands = 0
	}
	for _, ps := range p.pools.all() {
		for _, place := range ps.promotions() {
			ps.promoting[place].finish(Answer{Err: ErrUnavailable})
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
			b.ticket = ticket{} // noteTicket purges it when the new view shows it
			b.finish(Answer{Err: ErrUnavailable})
		}
	}
}

// expectTicket makes a borrow join again with the ticket that it has sent, if the new view
// shows the ticket. Otherwise a borrow that was waiting sends another one, and one that was
// joining is answered ErrUnavailable.
func (b *borrow) expectTicket() {
	key := b.ticket.key
	put(&b.pool.tickets, key, b)
	b.pool.flight.Joining++
	if b.phase == waiting {
		b.to(joining)
		b.ticket.revision, b.ticket.place = 0, 0
		b.p.reads.whenReached(0, func() { b.ticketMissing(key) })
	}
}
