package peer

import (
	"cmp"
	"slices"
	"time"

	"github.com/kvslots/kvslots/kvslots/internal/entry"
	"github.com/kvslots/kvslots/kvslots/internal/rules"
)

// join sends a ticket for a borrow that has to wait.
//
// The author of a ticket is this peer's presence, or the client session. Number 0 is
// for the ticket that a session has enqueued, which survives this peer; each Acquire
// has another number.
func (b *borrow) join() {
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
	revision, taken := b.p.view.Latest(key)
	if taken && b.kind == forEnqueue {
		if t := b.p.view.Pool(ps.id).TicketAt(key); t == nil || !t.Value.Spent && t.Stands() {
			c := b.call // enqueue decides again, in an exact view
			c.borrow, c.quit = nil, nil
			b.finish(Answer{})
			b.again()
			return
		}
	}
	b.ticket = ticket{key: key}
	b.to(joining)
	put(&ps.tickets, key, b)
	ps.flight.Joining++
	isOwn := b.joinedBy(key)
	w := b.p.writes.put(b.p.value(key, value, revision, ttl), nil)
	w.settled = func(f resolution) { b.joinAnswered(w, f, isOwn) }
}

// ticketNumber returns a number for which the author has no ticket in the pool.
func (b *borrow) ticketNumber(author entry.Hash) int {
	ps := b.pool
	if b.kind == forEnqueue {
		return 0
	}
	n, own := 1, author == b.p.self.id
	if own {
		if last := len(ps.freeNumbers) - 1; last >= 0 {
			n, ps.freeNumbers = ps.freeNumbers[last], ps.freeNumbers[:last]
			return n
		}
		n = ps.nextNumber
	}
	for ; ; n++ {
		key := entry.Key{Kind: entry.Ticket, Pool: ps.id, Session: author, N: n}
		if _, taken := b.p.view.Latest(key); !taken && ps.tickets[key] == nil {
			break
		}
	}
	if own {
		ps.nextNumber = n + 1
	}
	return n
}

// joinAnswered handles the outcome of a ticket that was not written, or was written too
// late. noteTicket handles success, when the view shows the ticket.
func (b *borrow) joinAnswered(w *write, f resolution, isOwn func(entry.Key) bool) {
	key := w.msg.Key
	switch {
	case !b.isJoiningAt(key):
		if f.result == written && b.phase != done {
			b.p.writes.purgeOwn(key, isOwn)
		}
	case f.result == unknown:
		w.undo(Ack{Outcome: Unknown}, isOwn)
		b.leaveLine()
		b.finish(Answer{Err: ErrUnavailable})
	default: // only an exact view shows for certain that no earlier copy was written
		b.p.reads.whenExact(func() { b.ticketMissing(key) })
	}
}

// isJoiningAt reports whether the borrow's ticket was sent under a key and is not shown
// by the view yet.
func (b *borrow) isJoiningAt(key entry.Key) bool {
	return b.ticket.key == key && !b.ticket.stands() && b.pool.tickets[key] == b
}

// joinedBy returns a function that reports whether a key has a ticket of the borrow
// other than its current one.
func (b *borrow) joinedBy(key entry.Key) func(entry.Key) bool {
	self := b.p.self.id
	return func(entry.Key) bool {
		t := b.p.view.Pool(key.Pool).TicketAt(key)
		return t != nil && t.Value.Lease == b.lease && (t.Value.Peer == self || key.Session == self) && !t.Value.Spent &&
			!(b.phase != done && b.ticket.key == key && b.ticket.revision == t.Revision)
	}
}

// ticketMissing handles a ticket that was purged or never written: the view would show
// it by now.
func (b *borrow) ticketMissing(key entry.Key) {
	if b.isJoiningAt(key) {
		b.loseTicket()
	}
}

// noteTicket handles the applied entry of a ticket.
func (p *Peer) noteTicket(e *entry.Entry) {
	own := !p.self.id.IsZero() && (e.Key.Session == p.self.id || e.Ticket.Peer == p.self.id)
	var b *borrow
	ps := p.pools.byID[e.Key.Pool]
	if ps != nil {
		b = ps.tickets[e.Key]
		defer ps.enqueuedChanged(e.Key.Session)
	}
	switch {
	case !e.Marker && p.isOrphaned(e.Key, &e.Ticket):
		p.writes.release(e.Key, e.Revision, nil)
	case ps != nil && b == nil && e.Marker && own:
		ps.freeNumbers = append(ps.freeNumbers, e.Key.N)
	case b == nil:
	case !e.Marker && e.Corrupt == nil && e.Ticket.Lease == b.lease && !b.ticket.stands():
		b.admit(e)
	case !e.Marker && b.ticket.stands() && e.Ticket.Lease == b.lease:
		b.ticket.revision = e.Revision
	case b.ticket.stands():
		b.loseTicket()
	}
}

// isOrphaned reports whether a ticket is this peer's, and its borrow has ended.
func (p *Peer) isOrphaned(key entry.Key, v *entry.TicketValue) bool {
	if p.self.id.IsZero() || v.Enqueued() || key.Session != p.self.id && v.Peer != p.self.id {
		return false
	}
	ps := p.pools.byID[key.Pool]
	if ps == nil || ps.tickets[key] == nil {
		return true
	}
	b := ps.tickets[key]
	return !b.ticket.stands() && v.Lease != b.lease
}

// purgeOrphans purges the orphaned tickets in the view. The stream may have lost their purges
// with its last writes, after it had acknowledged them.
func (p *Peer) purgeOrphans() {
	s := p.view.Session(p.self.id)
	if s == nil {
		return
	}
	for _, t := range s.Tickets {
		if p.isOrphaned(t.Key, &t.Value) {
			p.writes.release(t.Key, t.Revision, nil)
		}
	}
}

// admit admits a borrow to the line when the view shows its ticket.
func (b *borrow) admit(e *entry.Entry) {
	b.pool.flight.Joining--
	b.ticket.revision, b.ticket.place = e.Revision, e.Revision
	if b.phase == done {
		b.leaveLine()
		return
	}
	b.queued = true
	b.to(waiting)
	b.checkGeneration()
}

// checkGeneration checks that the ticket of a borrow that was just admitted is of the pool's
// present generation, and answers an Enqueue.
func (b *borrow) checkGeneration() {
	if b.phase != waiting {
		return
	}
	pool := b.p.view.Pool(b.pool.id)
	exact := b.p.view.Exact()
	inForce := pool.Generation() == b.generation && !pool.Closing()
	switch {
	case exact && inForce:
		b.confirmed = true
		b.sawFull = b.sawFull || pool.Full() && !pool.InDoubt(b.p.now)
	case exact && pool.Generation() != b.generation:
		b.restart()
		return
	case exact: // the pool is being closed: the ticket makes a peer restore it
		b.p.after(failurePause, func() { b.checkGeneration() })
		return
	case b.kind == forEnqueue || !inForce:
		b.p.reads.whenExact(func() { b.checkGeneration() })
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

// loseTicket puts a borrow whose ticket is gone back to the queue. The ticket may have
// ended with this peer's presence.
func (b *borrow) loseTicket() {
	b.leaveLine()
	if b.phase == joining || b.phase == waiting || b.phase == refusing {
		b.backToQueue()
	}
}

// leaveLine purges a borrow's ticket, or forgets one that the view does not show yet.
func (b *borrow) leaveLine() {
	t := b.ticket
	if b.pool.tickets[t.key] != b {
		return
	}
	delete(b.pool.tickets, t.key)
	b.ticket = ticket{}
	if !t.stands() {
		b.pool.flight.Joining--
	} else if revision, taken := b.p.view.Latest(t.key); taken && revision == t.revision {
		b.p.writes.release(t.key, revision, nil)
	}
	b.pool.mark()
}

// noteGeneration ends or restarts the borrows that came for another generation than
// the pool has now. Only an exact view is certain that a pool does not exist.
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
	for _, b := range ps.inLine() {
		switch {
		case b.phase == done || b.generation == 0 || b.generation == generation || b.kind == forTicket:
		case b.confirmed && !b.named():
			b.finish(Answer{Err: ErrNoPool})
		case b.phase == waiting:
			b.restart()
		}
	}
}

// inLine returns the borrows that stand in the pool's line, in order of place.
func (ps *poolState) inLine() []*borrow {
	var list []*borrow
	for _, b := range ps.tickets {
		if b.ticket.stands() {
			list = append(list, b)
		}
	}
	slices.SortFunc(list, func(x, y *borrow) int { return cmp.Compare(x.ticket.place, y.ticket.place) })
	return list
}
