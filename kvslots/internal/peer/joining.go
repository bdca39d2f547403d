package peer

import (
	"cmp"
	"slices"
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
	revision, taken := b.p.view.Stands(key)
	if taken && b.kind == forEnqueue {
		if t := b.p.view.Pool(ps.id).TicketAt(key); t == nil || !t.Value.Spent && t.Stands() {
			c := b.call // it looks again when that is certain
			c.borrow, c.quit = nil, nil
			b.finish(Answer{})
			b.again()
			return true
		}
	}
	b.ticket = ticket{key: key, server: b.p.self.id}
	b.to(joining)
	put(&ps.tickets, key, b)
	ps.flight.Joining++
	mine := b.joinedBy(key)
	w := b.p.put(b.p.value(key, value, revision, ttl), nil)
	w.told = func(f fate) { b.joinAnswered(w, f, mine) }
	return true
}

// ticketNumber is the lowest number that is free under an author.
func (b *borrow) ticketNumber(author entry.Hash) int {
	ps := b.pool
	if b.kind == forEnqueue {
		return 0
	}
	n, own := 1, author == b.p.self.id
	if own {
		if last := len(ps.freeNames) - 1; last >= 0 {
			n, ps.freeNames = ps.freeNames[last], ps.freeNames[:last]
			return n
		}
		n = ps.nextName
	}
	for ; ; n++ {
		key := entry.Key{Kind: entry.Ticket, Pool: ps.id, Session: author, N: n}
		if _, taken := b.p.view.Stands(key); !taken && ps.tickets[key] == nil {
			break
		}
	}
	if own {
		ps.nextName = n + 1
	}
	return n
}

// joinAnswered deals with the fate of a ticket. Success is what the view has shown.
func (b *borrow) joinAnswered(w *write, f fate, mine func(entry.Key) bool) {
	key := w.msg.Key
	switch {
	case !b.joins(key):
		if f.result == written && b.phase != done {
			b.p.disown(key, mine)
		}
	case f.result == unknown:
		w.undo(Ack{Outcome: Unknown}, mine)
		b.leaveLine()
		b.finish(Answer{Err: ErrUnavailable})
	default: // another's stands there, or it was purged
		b.ticketMissing(key)
	}
}

// joins reports whether a borrow's ticket was sent under a key, and not seen yet.
func (b *borrow) joins(key entry.Key) bool {
	return b.ticket.key == key && !b.ticket.stands() && b.pool.tickets[key] == b
}

// joinedBy reports whether what stands under a ticket's key is the borrow's, and not
// the ticket that it has.
func (b *borrow) joinedBy(key entry.Key) func(entry.Key) bool {
	self := b.p.self.id
	return func(entry.Key) bool {
		t := b.p.view.Pool(key.Pool).TicketAt(key)
		return t != nil && t.Value.Lease == b.lease && (t.Value.Peer == self || key.Session == self) && !t.Value.Spent &&
			!(b.phase != done && b.ticket.key == key && b.ticket.revision == t.Revision)
	}
}

// ticketMissing is for a borrow whose ticket the view should show by now, and does
// not: it was purged, or never written.
func (b *borrow) ticketMissing(key entry.Key) {
	if !b.joins(key) {
		return
	}
	b.leaveLine()
	if b.phase == joining {
		b.requeue()
	}
}

// ticketSeen takes note of a ticket's entry.
func (p *Peer) ticketSeen(e *entry.Entry) {
	own := !p.self.id.IsZero() && (e.Key.Session == p.self.id || e.Wait.Peer == p.self.id)
	var b *borrow
	ps := p.pools[e.Key.Pool]
	if ps != nil {
		b = ps.tickets[e.Key]
		defer ps.enqueuedChanged(e.Key.Session)
	}
	switch {
	case own && !e.Marker && !e.Wait.Enqueued() && (b == nil || !b.ticket.stands() && e.Wait.Lease != b.lease):
		p.release(e.Key, e.Revision, nil) // its borrow has ended
	case ps != nil && b == nil && e.Marker && own:
		ps.freeNames = append(ps.freeNames, e.Key.N)
	case b == nil:
	case !e.Marker && e.Corrupt == nil && e.Wait.Lease == b.lease && !b.ticket.stands():
		b.seat(e)
	case !e.Marker && b.ticket.stands() && e.Wait.Lease == b.lease:
		b.ticket.revision = e.Revision
	case b.ticket.stands():
		b.loseTicket()
	}
}

// seat notes that a borrow's ticket stands in the bucket.
func (b *borrow) seat(e *entry.Entry) {
	b.pool.flight.Joining--
	b.ticket.revision, b.ticket.place = e.Revision, e.Revision
	if b.phase == done {
		b.leaveLine()
		return
	}
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
	pool := b.p.view.Pool(b.pool.id)
	exact := b.p.view.Exact()
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
	b.leaveLine()
	if b.phase == joining || b.phase == waiting || b.phase == refusing {
		b.comeAgain()
	}
}

// leaveLine takes a borrow's ticket out of the line, or takes back that it was sent.
func (b *borrow) leaveLine() {
	t := b.ticket
	if b.pool.tickets[t.key] != b {
		return
	}
	delete(b.pool.tickets, t.key)
	b.ticket = ticket{}
	if !t.stands() {
		b.pool.flight.Joining--
	} else if revision, taken := b.p.view.Stands(t.key); taken && revision == t.revision {
		b.p.release(t.key, revision, nil)
	}
	b.pool.mark()
}

// noteGeneration ends, or begins anew, the borrows that came for another
// generation of the pool than the one in force. That a pool is not there at all is
// believed of an exact view only.
func (ps *poolState) noteGeneration(pool *rules.Pool) {
	generation := pool.Generation()
	if generation == ps.generation {
		return
	}
	if generation == 0 && !ps.p.view.Exact() {
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

func sortByPlace(list []*borrow) {
	slices.SortFunc(list, func(x, y *borrow) int { return cmp.Compare(x.ticket.place, y.ticket.place) })
}
