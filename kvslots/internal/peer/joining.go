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
func (b *borrow) join() bool {
	ps := b.pool
	author, value := b.p.self.id, entry.TicketValue{Lease: b.lease, Generation: b.generation, Wait: entry.Span(max(b.waitEnds.Sub(b.p.now), time.Millisecond))}
	ttl := b.waitEnds.Sub(b.p.now)
	switch {
	case b.kind == forEnqueue:
		author, ttl = b.session, rules.EnqueuedLife
		value.Peer, value.TTL, value.Nonce, value.Wait = b.p.self.id, entry.Span(b.ttl), b.nonce, entry.Span(rules.EnqueuedLife)
	case !b.session.IsZero():
		author, value.Peer = b.session, b.p.self.id
	}
	key := entry.Key{Kind: entry.Ticket, Pool: ps.id, Session: author, N: b.ticketNumber(author)}
	revision, taken := b.p.world.Stands(key)
	if taken && b.kind == forEnqueue {
		if t := b.p.world.Pool(ps.id).TicketAt(key); t == nil || !t.Value.Spent && t.Stands() {
			return b.enqueuedTwice()
		}
	}
	b.ticket = ticket{key: key, server: b.p.self.id}
	b.to(joining)
	put(&ps.tickets, key, b)
	ps.flight.Joining++
	m := b.p.value(key, value, revision, ttl)
	w := b.p.send(m, nil)
	w.done = func(a Ack) { b.joinAnswered(w, a) }
	return true
}

// ticketNumber is the lowest number that is free under an author.
func (b *borrow) ticketNumber(author entry.Hash) int {
	ps := b.pool
	if b.kind == forEnqueue {
		return 0
	}
	if author == b.p.self.id {
		if n := len(ps.freeNames); n > 0 {
			number := ps.freeNames[n-1]
			ps.freeNames = ps.freeNames[:n-1]
			return number
		}
	}
	n := 0
	if author == b.p.self.id {
		n = ps.nextName
	} else {
		n = 1
	}
	for ; ; n++ {
		key := entry.Key{Kind: entry.Ticket, Pool: ps.id, Session: author, N: n}
		if _, taken := b.p.world.Stands(key); !taken && ps.tickets[key] == nil {
			break
		}
	}
	if author == b.p.self.id {
		ps.nextName = n + 1
	}
	return n
}

// joinAnswered deals with the answer to a ticket. Success is what the view shows.
func (b *borrow) joinAnswered(w *write, a Ack) {
	key := w.msg.Key
	if b.ticket.key != key || b.ticket.stands() || b.pool.tickets[key] != b {
		if a.Outcome == Written && b.phase != done && !(b.ticket.key == key && b.ticket.stands()) {
			b.p.releaseAs(b.p.purgeOf(&w.msg, a.Revision), nil)
		}
		return
	}
	undo := func() { b.p.disown(key, b.joinedBy()) }
	switch a.Outcome {
	case Written:
		b.p.whenReached(a.Revision, func() { b.ticketMissing(key) })
		return
	case Conflict: // another's, or an earlier copy of it, or a marker that was not known
		b.p.whenReached(a.Revision, func() {
			if a.Revision == 0 {
				b.p.world.Absent(key)
			}
			b.ticketMissing(key)
		})
		return
	case Unknown:
		w.fenceOff(b.joinedBy())
	default:
		undo()
	}
	b.unjoin()
	b.finish(Answer{Err: ErrUnavailable})
}

// joinedBy reports whether what stands under a ticket's key is the borrow's.
func (b *borrow) joinedBy() func(entry.Key) bool {
	self := b.p.self.id
	return func(key entry.Key) bool {
		t := b.p.world.Pool(key.Pool).TicketAt(key)
		return t != nil && t.Value.Lease == b.lease && (t.Value.Peer == self || key.Session == self) && !t.Value.Spent &&
			!(b.phase != done && b.ticket.key == key && b.ticket.revision == t.Revision)
	}
}

// ticketMissing is for a borrow whose ticket the view should show by now, and does
// not: it was purged, or never written.
func (b *borrow) ticketMissing(key entry.Key) {
	if b.ticket.key != key || b.ticket.stands() || b.pool.tickets[key] != b {
		return
	}
	b.unjoin()
	if b.phase == joining {
		b.requeue()
	}
}

// unjoin takes back that a borrow's ticket was sent.
func (b *borrow) unjoin() {
	delete(b.pool.tickets, b.ticket.key)
	b.pool.flight.Joining--
	b.ticket = ticket{}
	b.pool.mark()
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
	case own && !e.Marker && !e.Wait.Enqueued() && (b == nil || !b.ticket.stands() && e.Wait.Lease != b.lease):
		p.release(e.Key, e.Revision, nil) // its borrow has ended
	case b == nil:
	case !e.Marker && e.Corrupt == nil && e.Wait.Lease == b.lease && !b.ticket.stands():
		b.seat(e)
	case !e.Marker && b.ticket.stands() && e.Wait.Lease == b.lease:
		b.ticket.revision = e.Revision
	case b.ticket.stands():
		b.loseTicket()
	}
	ps.enqueuedChanged(e.Key.Session)
}

// seat notes that a borrow's ticket stands in the bucket.
func (b *borrow) seat(e *entry.Entry) {
	b.pool.flight.Joining--
	if b.phase == done {
		delete(b.pool.tickets, b.ticket.key)
		b.p.release(e.Key, e.Revision, nil)
		return
	}
	b.ticket.revision, b.ticket.place = e.Revision, e.Revision
	b.queued = true
	b.to(waiting)
	b.seated()
}

// seated decides about a borrow whose ticket has come to stand: whether it is one
// for the pool as it is.
func (b *borrow) seated() {
	if b.phase != waiting {
		return
	}
	pool := b.p.world.Pool(b.pool.id)
	exact := b.p.world.Exact()
	inForce := pool.Generation() == b.generation && (!b.named() || pool.Count() > 0)
	switch {
	case exact && inForce:
		b.confirmed = true
		b.sawFull = b.sawFull || pool.Full() && !pool.InDoubt(b.p.now)
	case exact && pool.Generation() != b.generation:
		b.anew()
		return
	case exact: // the name is being closed, and will not be
		b.p.after(failurePause, func() { b.seated() })
		return
	case b.kind == forEnqueue || !inForce:
		b.p.whenExact(func() { b.seated() })
		return
	}
	switch {
	case b.kind == forEnqueue:
		b.finish(Answer{Queued: true})
	case !b.waits:
		b.refuseLater()
	}
	b.pool.mark()
}

// loseTicket is for a borrow whose ticket is gone: with its peer's presence, say.
func (b *borrow) loseTicket() {
	if b.phase == done || b.kind == forTicket {
		return
	}
	delete(b.pool.tickets, b.ticket.key)
	if !b.ticket.stands() {
		b.pool.flight.Joining--
	} else if revision, taken := b.p.world.Stands(b.ticket.key); taken {
		b.p.release(b.ticket.key, revision, nil)
	}
	b.ticket = ticket{}
	if b.phase == joining || b.phase == waiting || b.phase == refusing {
		b.to(arrived)
		b.pool.queue = append(b.pool.queue, b)
	}
	b.pool.mark()
}

// dropTicket takes a ticket out of the line.
func (b *borrow) dropTicket() {
	delete(b.pool.tickets, b.ticket.key)
	b.p.release(b.ticket.key, b.ticket.revision, nil)
	b.ticket = ticket{}
}

// noteGeneration ends, or begins anew, the borrows that came for another
// generation of the pool than the one in force. That a pool is not there at all is
// believed of an exact view only.
func (ps *poolState) noteGeneration(pool *rules.Pool) {
	var generation uint64
	if pool != nil {
		generation = pool.Generation()
	}
	if generation == ps.generation {
		return
	}
	if generation == 0 && !ps.p.world.Exact() {
		ps.wantExact()
		return
	}
	ps.generation, ps.allChanged = generation, true
	for _, b := range ps.settled() {
		switch {
		case b.phase == done || b.generation == 0 || b.generation == generation || b.kind == forTicket:
		case b.confirmed && !b.named():
			b.finish(Answer{Err: ErrNoPool})
		case b.phase == waiting:
			b.anew()
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
