package peer

import (
	"cmp"
	"slices"
	"time"

	"github.com/kvslots/kvslots/kvslots/internal/entry"
	"github.com/kvslots/kvslots/kvslots/internal/rules"
)

type ticket struct {
	key      entry.Key
	place    uint64 // 0 until the view shows it
	sent     Instant
	admitted bool // a view has shown it
}

func (t *ticket) stands() bool { return t.place != 0 }

// join sends a ticket for a borrow that has to wait, unless there is a place for its request key:
// then it takes that place, also from another peer, which may have died.
//
// The author of a ticket is this peer's presence, or the client session. Number 0 is
// for the ticket that a session has enqueued.
func (b *borrow) join(pool *rules.Pool) {
	place := pool.PlaceOf(b.request)
	if place != nil && place.Value.TTL != entry.Span(b.ttl.Truncate(time.Millisecond)) {
		b.refuse(ErrKeyReused)
	} else {
		b.sendTicket(place)
	}
}

// sendTicket writes a borrow's ticket: a new one, or the one that stands at a place.
func (b *borrow) sendTicket(place *rules.Ticket) {
	key, value := b.newTicket()
	if t := b.p.view().Pool(b.pool.id).TicketAt(key); t != nil && t.Stands() { // of an earlier Enqueue, which decides again in a current view
		b.callers = nil
		b.finish(Answer{})
		b.again()
		return
	}
	if b.pool.tickets[key] != nil { // of another Enqueue of the session, which is under way
		b.pool.markLater()
		return
	}
	if place != nil {
		key, value.Place, value.Peer = place.Key, place.Place, b.p.self()
	}
	revision, _ := b.p.view().Latest(key)
	b.ticket = ticket{key: key, sent: b.p.now()}
	b.to(joining)
	put(&b.pool.tickets, key, b)
	w := b.p.put(b.p.value(key, value, revision, value.Wait.Duration()), b.joinSettled)
	if place == nil {
		w.joins()
	}
}

func (b *borrow) newTicket() (key entry.Key, value *entry.TicketValue) {
	if b.enqueued() {
		return rules.EnqueuedKey(b.pool.id, b.session), &entry.TicketValue{
			Lease: b.lease, Generation: b.generation, Peer: b.p.self(), TTL: entry.Span(b.ttl), Nonce: b.nonce,
			Wait: entry.Span(rules.EnqueuedLife), Request: b.request, Label: b.label,
		}
	}
	grace, left := b.grace(), max(b.waitEnds().Sub(b.p.now()), time.Millisecond)
	value = &entry.TicketValue{
		Lease: b.lease, Generation: b.generation, Session: b.session, Origin: b.origin, Request: b.request, Label: b.label,
	}
	if grace > 0 { // its callers may wait again
		left = max(left, rules.EnqueuedLife)
		value.Grace, value.TTL, value.Waiter = entry.Span(grace), entry.Span(b.ttl), b.waiter()
	}
	value.Wait = entry.Span(left)
	return entry.Key{Kind: entry.Ticket, Pool: b.pool.id, Session: b.p.self(), N: b.pool.ticketNumber()}, value
}

// ticketNumber returns a number for which this peer has no ticket in the pool.
func (ps *poolState) ticketNumber() (n int) {
	isFree := func(n int) bool {
		key := entry.Key{Kind: entry.Ticket, Pool: ps.id, Session: ps.p.self(), N: n}
		_, taken := ps.p.view().Latest(key)
		return !taken && ps.tickets[key] == nil
	}
	for last := len(ps.freeNumbers) - 1; last >= 0; last-- {
		n, ps.freeNumbers = ps.freeNumbers[last], ps.freeNumbers[:last]
		if isFree(n) { // a marker that was written again has freed it twice
			return n
		}
	}
	for n = max(ps.nextNumber, 1); !isFree(n); n++ {
	}
	ps.nextNumber = n + 1
	return n
}

// joinSettled handles the outcome of a ticket that was not written, or was purged since.
// noteTicket handles success, when the view shows the ticket.
func (b *borrow) joinSettled(w *write) {
	key := w.key()
	known := w.written() || w.refused()
	if b.ticket.key == key && b.ticket.admitted { // the borrow waits with it, or looks for it in a new view
		return
	}
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

func (p *pools) noteTicket(e *entry.Entry) {
	var b *borrow
	ps := p.byID[e.Key.Pool]
	if ps != nil {
		b = ps.tickets[e.Key]
	}
	own := b != nil && !e.Marker && e.Corrupt == nil && e.Ticket.Lease == b.lease
	switch {
	case !e.Marker && (p.isDisowned(e.Author) || p.isOrphaned(e.Key, &e.Ticket)):
		p.undo(e.Author, e.Key, e.Revision, nil)
	case ps != nil && b == nil && e.Marker && e.Key.Session == p.self():
		ps.freeNumbers = append(ps.freeNumbers, e.Key.N)
	case b == nil:
	case b.awaits && !e.Marker && !e.Ticket.Spent && e.Ticket.Place == b.ticket.place:
	case b.awaits:
		b.turn(waiting)
	case !b.ticket.stands() && own:
		b.admit(e)
	case !b.ticket.stands() || own:
	case !e.Marker && e.Ticket.Place == b.ticket.place: // another peer serves it, or its callers there have gone
		b.takePart()
	default:
		b.loseTicket()
	}
}

// takePart is for a borrow beside whose place another peer, or its callers, may have gone.
func (b *borrow) takePart() {
	if t := b.p.view().Pool(b.pool.id).TicketAt(b.ticket.key); t != nil && t.Absent() {
		b.takePlace()
	}
}

// takePlace has a borrow take its place from the peer that serves it.
func (b *borrow) takePlace() {
	t := b.p.view().Pool(b.pool.id).TicketAt(b.ticket.key)
	if b.phase == waiting && t != nil && (t.Absent() || t.Server() != b.p.self()) {
		b.unbind()
		b.backToQueue()
	}
}

// isOrphaned reports whether a ticket is this peer's to serve, and no borrow knows of it.
func (p *pools) isOrphaned(key entry.Key, v *entry.TicketValue) bool {
	if p.self().IsZero() || v.Enqueued() || v.Away || cmp.Or(v.Peer, key.Session) != p.self() {
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
	s := p.view().Session(p.self())
	if s == nil {
		return
	}
	for _, t := range s.Tickets {
		if p.isOrphaned(t.Key, &t.Value) {
			p.discard(t.Key, t.Revision, nil)
		}
	}
}

func (b *borrow) admit(e *entry.Entry) {
	b.ticket.place, b.ticket.admitted = cmp.Or(e.Ticket.Place, e.Revision), true
	if b.phase == done {
		b.leaveLine()
		return
	}
	b.queued = true
	b.to(waiting)
	b.p.whenLive(b.checkGeneration)
}

// checkGeneration checks that the ticket of a borrow that was just admitted is of the pool's
// present generation, and answers an Enqueue.
func (b *borrow) checkGeneration() {
	if b.phase != waiting {
		return
	}
	pool := b.p.view().Pool(b.pool.id)
	switch {
	case pool.Generation() != b.generation:
		b.restart()
		return
	case pool.Closing(): // the ticket makes a peer restore it
		b.p.after(nil, failurePause, b.checkGeneration)
		return
	case len(b.callers) == 0:
		b.sendAway()
		return
	}
	// A caller that came after the ticket was sent may have come after this state of the pool.
	b.confirmed = true
	full := pool.Full() && !pool.InDoubt(b.p.now())
	for _, a := range b.callers {
		inTime := a.came <= b.ticket.sent
		b.confirmed = b.confirmed && inTime
		a.sawFull = a.sawFull || full && inTime
	}
	if b.enqueued() {
		b.finish(Answer{Queued: true})
		return
	}
	b.lookForSlot()
	b.pool.mark()
}

// sendAway writes that no caller waits at the borrow's place any more. A repeat at any peer takes
// the place; without one it is purged at the end of the grace.
func (b *borrow) sendAway() {
	t := b.p.view().Pool(b.pool.id).TicketAt(b.ticket.key)
	if t == nil || !t.Kept() || t.Server() != b.p.self() || t.Expiring(b.p.now()) {
		b.finish(Answer{Err: ErrNoSlot})
		return
	}
	b.to(parting)
	value := t.Value
	value.Place, value.Away = t.Place, true
	b.p.put(b.p.value(t.Key, &value, t.Revision, max(value.Grace, value.Wait).Duration()), func(r *write) {
		switch {
		case b.phase != parting:
		case r.written():
			b.unbind()
			b.backToQueue()
		default:
			b.loseTicket()
		}
	})
}

// adopt writes a session's ticket again, with this peer as the one that claims for it.
// A peer that undoes its write of the ticket later does not purge an adopted ticket.
func (p *pools) adopt(t *rules.Ticket, then func()) {
	if !p.isPresent() || p.view().Expiring(t.Key, p.now()) {
		p.after(nil, failurePause, then)
		return
	}
	value := t.Value
	value.Peer, value.Place = p.self(), t.Place
	p.put(p.value(t.Key, &value, t.Revision, rules.EnqueuedLife), func(w *write) {
		if w.unknown() {
			p.after(nil, failurePause, then)
		} else {
			then()
		}
	})
}

// loseTicket puts a borrow whose ticket is gone back to the queue. The ticket may have
// ended with this peer's presence.
func (b *borrow) loseTicket() {
	b.leaveLine()
	if b.phase == joining || b.phase == waiting || b.phase == parting {
		b.backToQueue()
	}
}

// unbind forgets a borrow's ticket, which stays in the line.
func (b *borrow) unbind() (was ticket) {
	was = b.ticket
	if b.pool.tickets[was.key] != b {
		return ticket{}
	}
	delete(b.pool.tickets, was.key)
	b.ticket = ticket{}
	b.pool.mark()
	return was
}

// leaveLine purges a borrow's ticket, or forgets one that the view does not show yet or that
// another peer serves.
func (b *borrow) leaveLine() {
	was := b.unbind()
	if t := b.p.view().Pool(b.pool.id).TicketAt(was.key); was.stands() && t != nil && t.Place == was.place && t.Value.Lease == b.lease {
		b.p.discard(t.Key, t.Revision, nil)
	}
}

// presenceLost puts the borrows whose tickets have ended with this peer's presence back to
// their queues, in order of arrival. An enqueued ticket does not end with it, and may be
// served while its borrow still waits for the view to show it. A place that is kept stands
// still, for a repeat or for the borrow itself.
func (p *pools) presenceLost() {
	for _, b := range p.borrows() {
		switch {
		case b.enqueued() || b.ticket.key == (entry.Key{}):
		case b.grace() > 0 && (b.phase == waiting || b.phase == parting):
			b.unbind()
			b.backToQueue()
		default:
			b.loseTicket()
		}
	}
	for _, ps := range p.all() {
		ps.nextNumber, ps.freeNumbers = 0, nil
	}
}

// peerGone is called when a peer's presence has ended: borrows that wait at places which it
// served take its part.
func (p *pools) peerGone(s *rules.Session) {
	for _, t := range slices.Clone(s.Tickets) {
		if ps := p.byID[t.Pool.ID]; ps != nil {
			if b := ps.tickets[t.Key]; b != nil && b.ticket.stands() {
				b.takePart()
			}
		}
	}
}

// leaveLineAfter is for a borrow that has its answer.
func (b *borrow) leaveLineAfter(was phase, a Answer) {
	switch {
	case b.enqueued() && a.Err == nil && was != joining: // its ticket stays in the line
		delete(b.pool.tickets, b.ticket.key)
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
