package peer

import (
	"time"

	"github.com/kvslots/kvslots/kvslots/internal/entry"
	"github.com/kvslots/kvslots/kvslots/internal/rules"
)

// join sends a ticket for a borrow that has to wait. It returns false when that
// has to wait itself.
//
// A peer's own tickets stand under its presence, those of a client session under
// the session's name: number 0 is what it has enqueued, which survives this peer,
// and each Acquire has another number.
func (p *Peer) join(b *borrow) bool {
	ps := b.pool
	author, value := p.self.id, entry.TicketValue{Lease: b.lease, Generation: b.generation, Wait: entry.Span(max(b.waitEnds.Sub(p.now), time.Millisecond))}
	ttl := b.waitEnds.Sub(p.now)
	switch {
	case b.kind == forEnqueue:
		author, ttl = b.session, rules.EnqueuedLife
		value.Peer, value.TTL, value.Nonce, value.Wait = p.self.id, entry.Span(b.ttl), b.nonce, entry.Span(rules.EnqueuedLife)
	case !b.session.IsZero():
		author, value.Peer = b.session, p.self.id
	}
	key := entry.Key{Kind: entry.Ticket, Pool: ps.id, Session: author, N: p.ticketNumber(b, author)}
	revision, taken := p.world.Stands(key)
	if taken && b.kind == forEnqueue {
		if t := p.world.Pool(ps.id).TicketAt(key); t == nil || !t.Value.Spent && t.Stands() {
			return p.enqueuedTwice(b)
		}
	}
	b.ticket = ticket{key: key, server: p.self.id}
	p.to(b, joining)
	put(&ps.tickets, key, b)
	ps.flight.Joining++
	m := p.value(key, value, revision, ttl)
	w := p.send(m, nil)
	w.done = func(a Ack) { p.joinAnswered(b, w, a) }
	return true
}

// ticketNumber is the lowest number that is free under an author.
func (p *Peer) ticketNumber(b *borrow, author entry.Hash) int {
	ps := b.pool
	if b.kind == forEnqueue {
		return 0
	}
	if author == p.self.id {
		if n := len(ps.freeNames); n > 0 {
			number := ps.freeNames[n-1]
			ps.freeNames = ps.freeNames[:n-1]
			return number
		}
	}
	n := 0
	if author == p.self.id {
		n = ps.nextName
	} else {
		n = 1
	}
	for ; ; n++ {
		key := entry.Key{Kind: entry.Ticket, Pool: ps.id, Session: author, N: n}
		if _, taken := p.world.Stands(key); !taken && ps.tickets[key] == nil {
			break
		}
	}
	if author == p.self.id {
		ps.nextName = n + 1
	}
	return n
}

// joinAnswered deals with the answer to a ticket. Success is what the view shows.
func (p *Peer) joinAnswered(b *borrow, w *write, a Ack) {
	key := w.msg.Key
	if b.ticket.key != key || b.ticket.stands() || b.pool.tickets[key] != b {
		if a.Outcome == Written && b.phase != done && !(b.ticket.key == key && b.ticket.stands()) {
			p.releaseAs(p.purgeOf(&w.msg, a.Revision), nil)
		}
		return
	}
	undo := func() { p.disown(key, p.joinedBy(b)) }
	switch a.Outcome {
	case Written:
		p.whenReached(a.Revision, func() { p.ticketMissing(b, key) })
		return
	case Conflict: // another's, or an earlier copy of it, or a marker that was not known
		p.whenReached(a.Revision, func() {
			if a.Revision == 0 {
				p.world.Absent(key)
			}
			p.ticketMissing(b, key)
		})
		return
	case Unknown:
		p.fenceOff(w, p.joinedBy(b))
	default:
		undo()
	}
	p.unjoin(b)
	p.finish(b, Answer{Err: ErrUnavailable})
}

// joinedBy reports whether what stands under a ticket's key is the borrow's.
func (p *Peer) joinedBy(b *borrow) func(entry.Key) bool {
	self := p.self.id
	return func(key entry.Key) bool {
		t := p.world.Pool(key.Pool).TicketAt(key)
		return t != nil && t.Value.Lease == b.lease && (t.Value.Peer == self || key.Session == self) && !t.Value.Spent &&
			!(b.phase != done && b.ticket.key == key && b.ticket.revision == t.Revision)
	}
}

// ticketMissing is for a borrow whose ticket the view should show by now, and does
// not: it was purged, or never written.
func (p *Peer) ticketMissing(b *borrow, key entry.Key) {
	if b.ticket.key != key || b.ticket.stands() || b.pool.tickets[key] != b {
		return
	}
	p.unjoin(b)
	if b.phase == joining {
		p.requeue(b)
	}
}

// unjoin takes back that a borrow's ticket was sent.
func (p *Peer) unjoin(b *borrow) {
	delete(b.pool.tickets, b.ticket.key)
	b.pool.flight.Joining--
	b.ticket = ticket{}
	p.mark(b.pool)
}

// ticketSeen takes note of a ticket's entry.
func (p *Peer) ticketSeen(e *entry.Entry) {
	own := !p.self.id.IsZero() && (e.Key.Session == p.self.id || e.Wait.Peer == p.self.id)
	ps := p.pools[e.Key.Pool]
	if ps == nil {
		if own && !e.Marker && !e.Wait.Enqueued() {
			p.release(e.Key, e.Revision, nil) // its borrow has ended
		}
		return
	}
	b := ps.tickets[e.Key]
	switch {
	case b == nil && e.Marker && own:
		ps.freeNames = append(ps.freeNames, e.Key.N)
	case b == nil && own && !e.Wait.Enqueued():
		p.release(e.Key, e.Revision, nil)
	case b == nil:
	case !e.Marker && e.Corrupt == nil && e.Wait.Lease == b.lease && !b.ticket.stands():
		p.seat(b, e)
	case !e.Marker && b.ticket.stands() && e.Wait.Lease == b.lease:
		b.ticket.revision = e.Revision
	case b.ticket.stands():
		p.loseTicket(b)
	}
	p.enqueuedChanged(ps, e.Key.Session)
}

// seat notes that a borrow's ticket stands in the bucket.
func (p *Peer) seat(b *borrow, e *entry.Entry) {
	b.pool.flight.Joining--
	if b.phase == done {
		delete(b.pool.tickets, b.ticket.key)
		p.release(e.Key, e.Revision, nil)
		return
	}
	b.ticket.revision, b.ticket.place = e.Revision, e.Revision
	p.to(b, waiting)
	p.seated(b)
}

// seated decides about a borrow whose ticket has come to stand: whether it is one
// for the pool as it is.
func (p *Peer) seated(b *borrow) {
	if b.phase != waiting {
		return
	}
	pool := p.world.Pool(b.pool.id)
	exact := p.world.Exact()
	inForce := pool.Generation() == b.generation && (!b.named() || pool.Count() > 0)
	switch {
	case exact && inForce:
		b.confirmed = true
		b.sawFull = b.sawFull || pool.Full() && !pool.InDoubt(p.now)
	case exact && pool.Generation() != b.generation:
		p.anew(b)
		return
	case exact: // the name is being closed, and will not be
		p.after(failurePause, func() { p.seated(b) })
		return
	case b.kind == forEnqueue || !inForce:
		p.whenExact(func() { p.seated(b) })
		return
	}
	switch {
	case b.kind == forEnqueue:
		p.finish(b, Answer{Queued: true})
	case !b.waits:
		p.refuseLater(b)
	}
	p.mark(b.pool)
}

// loseTicket is for a borrow whose ticket is gone: with its peer's presence, say.
func (p *Peer) loseTicket(b *borrow) {
	if b.phase == done || b.kind == forTicket {
		return
	}
	delete(b.pool.tickets, b.ticket.key)
	if !b.ticket.stands() {
		b.pool.flight.Joining--
	} else if revision, taken := p.world.Stands(b.ticket.key); taken {
		p.release(b.ticket.key, revision, nil)
	}
	b.ticket = ticket{}
	if b.phase == joining || b.phase == waiting || b.phase == refusing {
		p.to(b, arrived)
		b.pool.queue = append(b.pool.queue, b)
	}
	p.mark(b.pool)
}

// dropTicket takes a ticket out of the line.
func (p *Peer) dropTicket(b *borrow) {
	delete(b.pool.tickets, b.ticket.key)
	p.release(b.ticket.key, b.ticket.revision, nil)
	b.ticket = ticket{}
}

// noteGeneration ends, or begins anew, the borrows that came for another
// generation of the pool than the one in force. That a pool is not there at all is
// believed of an exact view only.
func (p *Peer) noteGeneration(ps *poolState, pool *rules.Pool) {
	var generation uint64
	if pool != nil {
		generation = pool.Generation()
	}
	if generation == ps.generation {
		return
	}
	if generation == 0 && !p.world.Exact() {
		p.wantExactFor(ps)
		return
	}
	ps.generation, ps.allChanged = generation, true
	for _, b := range ps.settled() {
		switch {
		case b.phase == done || b.generation == 0 || b.generation == generation || b.kind == forTicket:
		case b.confirmed && !b.named():
			p.finish(b, Answer{Err: ErrNoPool})
		case b.phase == waiting:
			p.anew(b)
		}
	}
}

// settled are the borrows of a pool that stand in its line, by place.
func (ps *poolState) settled() []*borrow {
	var list []*borrow
	for _, b := range ps.tickets {
		if b.ticket.stands() {
			list = append(list, b)
		}
	}
	sortByPlace(list)
	return list
}
