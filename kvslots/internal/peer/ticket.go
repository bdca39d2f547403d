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
	t := b.ticketFor(b)
	if t == nil {
		return
	}
	key := t.key
	revision, _ := b.p.view.Latest(key)
	b.ticket = ticket{key: key}
	b.to(joining)
	put(&ps.tickets, key, b)
	ps.flight.Joining++
	w := b.p.writes.put(b.p.value(key, t.value, revision, t.ttl), nil)
	w.settled = func(r resolution) { b.joinSettled(w, r) }
}

// newTicket is a ticket to be written.
type newTicket struct {
	key   entry.Key
	value entry.TicketValue
	ttl   time.Duration
}

func (byCall) ticketFor(b *borrow) *newTicket {
	author, left := b.p.self.id, b.ticketLife()
	value := entry.TicketValue{
		Lease: b.lease, Generation: b.generation, Wait: entry.Span(max(left, time.Millisecond)), Origin: b.origin, Request: b.request,
		Label: b.label,
	}
	if !b.session.IsZero() {
		author, value.Peer = b.session, b.p.self.id
	}
	key := entry.Key{Kind: entry.Ticket, Pool: b.pool.id, Session: author, N: b.ticketNumber(author)}
	return &newTicket{key, value, left}
}

// ticketNumber returns a number for which the author has no ticket in the pool.
func (b *borrow) ticketNumber(author entry.Hash) int {
	ps := b.pool
	isFree := func(n int) bool {
		key := entry.Key{Kind: entry.Ticket, Pool: ps.id, Session: author, N: n}
		_, taken := b.p.view.Latest(key)
		return !taken && ps.tickets[key] == nil
	}
	n, own := 1, author == b.p.self.id
	if own {
		for last := len(ps.freeNumbers) - 1; last >= 0; last-- {
			n, ps.freeNumbers = ps.freeNumbers[last], ps.freeNumbers[:last]
			if isFree(n) { // a marker that was written again has freed it twice
				return n
			}
		}
		n = ps.nextNumber
	}
	for !isFree(n) {
		n++
	}
	if own {
		ps.nextNumber = n + 1
	}
	return n
}

// joinSettled handles the outcome of a ticket that was not written, or was purged since.
// noteTicket handles success, when the view shows the ticket.
func (b *borrow) joinSettled(w *write, r resolution) {
	key := w.msg.Key
	known := r.result == written || r.result == refused
	if !known {
		w.fenceOff()
	}
	switch {
	case !b.isJoiningAt(key):
	case known:
		b.loseTicket()
	default:
		b.leaveLine()
		b.finish(Answer{Err: ErrUnavailable})
	}
}

// isJoiningAt reports whether the borrow's ticket was sent under a key and is not shown
// by the view yet.
func (b *borrow) isJoiningAt(key entry.Key) bool {
	return b.ticket.key == key && !b.ticket.stands() && b.pool.tickets[key] == b
}

// noteTicket handles the applied entry of a ticket.
func (p *pools) noteTicket(e *entry.Entry) {
	own := !p.self.id.IsZero() && (e.Key.Session == p.self.id || e.Ticket.Peer == p.self.id)
	var b *borrow
	ps := p.byID[e.Key.Pool]
	if ps != nil {
		b = ps.tickets[e.Key]
	}
	switch {
	case !e.Marker && p.isOrphaned(e.Key, &e.Ticket):
		p.writes.discard(e.Key, e.Revision, nil)
	case ps != nil && b == nil && e.Marker && own:
		ps.freeNumbers = append(ps.freeNumbers, e.Key.N)
	case b == nil:
	case !e.Marker && e.Corrupt == nil && e.Ticket.Lease == b.lease && !b.ticket.stands():
		b.admit(e)
	case !e.Marker && b.ticket.stands() && e.Ticket.Lease == b.lease:
		b.ticket.revision, b.ticket.until = e.Revision, p.now.Add(e.TTL-rules.Guard)
	case b.ticket.stands():
		b.loseTicket()
	}
}

// isOrphaned reports whether a ticket is this peer's, and its borrow has ended.
func (p *pools) isOrphaned(key entry.Key, v *entry.TicketValue) bool {
	if p.self.id.IsZero() || v.Enqueued() || key.Session != p.self.id && v.Peer != p.self.id {
		return false
	}
	ps := p.byID[key.Pool]
	if ps == nil || ps.tickets[key] == nil {
		return true
	}
	b := ps.tickets[key]
	return !b.ticket.stands() && v.Lease != b.lease
}

// purgeOrphans purges the orphaned tickets in the view. The stream may have lost their purges
// with its last writes, after it had acknowledged them.
func (p *pools) purgeOrphans() {
	s := p.view.Session(p.self.id)
	if s == nil {
		return
	}
	for _, t := range s.Tickets {
		if p.isOrphaned(t.Key, &t.Value) {
			p.writes.discard(t.Key, t.Revision, nil)
		}
	}
}

// admit admits a borrow to the line when the view shows its ticket.
func (b *borrow) admit(e *entry.Entry) {
	b.pool.flight.Joining--
	b.ticket.revision, b.ticket.place, b.ticket.until = e.Revision, e.Revision, b.p.now.Add(e.TTL-rules.Guard)
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
	switch {
	case !b.p.view.Live:
		b.p.reads.whenLive(func() { b.checkGeneration() })
		return
	case pool.Generation() != b.generation:
		b.restart()
		return
	case pool.Closing(): // the ticket makes a peer restore it
		b.p.after(failurePause, func() { b.checkGeneration() })
		return
	}
	b.confirmed = true
	b.sawFull = b.sawFull || pool.Full() && !pool.InDoubt(b.p.now)
	b.admitted(b)
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
		b.p.writes.discard(t.key, revision, nil)
	}
	b.pool.mark()
}

// presenceLost puts the borrows whose tickets have ended with this peer's presence back to
// their queues, in order of arrival. An enqueued ticket does not end with it, and may be
// served while its borrow still waits for the view to show it.
func (p *pools) presenceLost() {
	for _, c := range p.calls.all() {
		if b, ok := c.work.(*borrow); ok && b.phase != done && !b.enqueued() && b.ticket.key != (entry.Key{}) {
			b.loseTicket()
		}
	}
	for _, ps := range p.all() {
		ps.nextNumber, ps.freeNumbers = 0, nil
	}
}

// leaveLineAfter is for a borrow that has its answer.
func (b *borrow) leaveLineAfter(was phase, a Answer) {
	switch {
	case was == joining: // noteTicket purges its ticket
	case (was == claiming || was == withdrawing) && a.Err != nil: // its ticket leaves the line after its claim
	default:
		b.leaveLine()
	}
}

// noteGeneration ends or restarts the borrows that came for another generation than
// the pool has now. Only a live view is certain that a pool does not exist.
func (ps *poolState) noteGeneration(pool *rules.Pool) {
	generation := pool.Generation()
	if generation == ps.generation {
		return
	}
	ps.generation = generation
	for _, b := range ps.inLine() {
		switch {
		case b.phase == done || b.generation == 0 || b.generation == generation:
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
