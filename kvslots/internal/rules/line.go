package rules

import (
	"time"

	"github.com/kvslots/kvslots/kvslots/internal/entry"
)

// Ticket is a place in a pool's waiting line.
type Ticket struct {
	Pool     *Pool
	Key      entry.Key
	Revision uint64 // the place
	Value    entry.TicketValue

	session    *Session
	life       life
	claim      *Slot // the live slot that names it
	void       bool  // of a named pool: its terms were not those in force when it came
	unsure     bool  // the view was not exact then
	at         time.Time
	seen       Instant // when it came
	doubted    Instant // when it was learnt that an entry was skipped that may have served it
	couldSince Instant // since when it has been its turn; 0 while it is not
	could      bool    // it is its turn
	prev, next *Ticket
}

// stands tells whether the ticket is in the line: its session is alive, its
// pool is the one it was drawn for, and no live slot names it.
func (t *Ticket) stands() bool { return t.present() && t.Pool.knows(t.Value.Incarnation) }

// present is stands, but for the terms in force.
func (t *Ticket) present() bool {
	return t.session.Present && !t.claimed() && !t.void && !t.Value.Spent
}

// Stands tells whether the ticket is in the line.
func (t *Ticket) Stands() bool { return t.stands() }

// Void tells whether the ticket asks for other terms than those that were in
// force when it came. It stands in no line.
func (t *Ticket) Void() bool { return t.void }

// Claim is the live slot that names the ticket, or nil.
func (t *Ticket) Claim() *Slot {
	if t.claimed() {
		return t.claim
	}
	return nil
}

// Seen is when the ticket came.
func (t *Ticket) Seen() Instant { return t.seen }

// AbleFor is how long it has been the ticket's turn.
func (t *Ticket) AbleFor(now Instant) time.Duration {
	if !t.could {
		return 0
	}
	return time.Duration(now - t.couldSince)
}

func (t *Ticket) claimed() bool {
	return t.claim != nil && t.claim.Live() && t.claim.Value.Ticket == t.Revision
}

// doubtTickets notes that entries of a slot were skipped, the last of them at
// that revision: a claim and the purge of its lease, perhaps. Whoever waited may
// have been served. If so, its own peer takes the ticket out of the line soon.
func (p *Pool) doubtTickets(revision uint64, now Instant) {
	for t := p.line.first; t != nil && t.Revision < revision; t = t.next {
		t.doubted = max(now, 1)
	}
}

// Doubtful tells whether the ticket may have been served.
func (t *Ticket) Doubtful(now Instant) bool { return t.doubted != 0 && now-t.doubted < doubtTime }

// waits tells whether the ticket stands and is not passed over.
func (t *Ticket) waits() bool { return t.stands() && !t.session.stalled }

// line is the tickets of a pool in order of revision.
type line struct {
	first, last *Ticket
	byKey       map[entry.Key]*Ticket
	byRevision  map[uint64]*Ticket
	able        []*Ticket // those that could claim now
}

func (l *line) add(t *Ticket) {
	if l.byKey == nil {
		l.byKey, l.byRevision = map[entry.Key]*Ticket{}, map[uint64]*Ticket{}
	}
	l.byKey[t.Key], l.byRevision[t.Revision] = t, t
	t.prev = l.last
	if l.last != nil {
		l.last.next = t
	} else {
		l.first = t
	}
	l.last = t
	t.session.tickets[t] = struct{}{}
}

func (l *line) remove(t *Ticket) {
	if l.byRevision[t.Revision] != t {
		return
	}
	delete(l.byKey, t.Key)
	delete(l.byRevision, t.Revision)
	delete(t.session.tickets, t)
	if t.prev != nil {
		t.prev.next = t.next
	} else {
		l.first = t.next
	}
	if t.next != nil {
		t.next.prev = t.prev
	} else {
		l.last = t.prev
	}
	if l.first == nil {
		l.byKey, l.byRevision = nil, nil
	}
}

func (l *line) standing() int {
	n := 0
	for t := l.first; t != nil; t = t.next {
		if t.stands() {
			n++
		}
	}
	return n
}

// ahead counts the tickets that wait before the given place, up to atMost.
func (p *Pool) ahead(place uint64, atMost int) int {
	n := 0
	for t := p.line.first; t != nil && t.Revision < place && n < atMost; t = t.next {
		if t.waits() {
			n++
		}
	}
	return n
}

// Ticket is the ticket of that revision, or nil when it has left the line.
func (p *Pool) Ticket(revision uint64) *Ticket { return p.line.byRevision[revision] }

// TicketAt is the ticket that stands under a key, or nil.
func (p *Pool) TicketAt(key entry.Key) *Ticket { return p.line.byKey[key] }

// Tickets calls yield for every ticket whose key is known, in order of place,
// until it returns false.
func (p *Pool) Tickets(yield func(*Ticket) bool) {
	for t := p.line.first; t != nil; {
		next := t.next
		if !yield(t) {
			return
		}
		t = next
	}
}

// Able are the tickets for which there is a permit, those passed over included:
// the first may claim now, the next ones when those before them have claimed.
func (p *Pool) Able() []*Ticket { return p.line.able }

// refreshAble finds the tickets for which there is a permit. A ticket that is
// passed over uses up none.
func (p *Pool) refreshAble(now Instant) {
	if p.line.first == nil && len(p.line.able) == 0 {
		return
	}
	for _, t := range p.line.able {
		t.could = false
	}
	old, first := p.line.able, true
	var able []*Ticket
	free := p.Count() - p.live.len()
	if p.Disputed() {
		free = 0 // nobody may claim, and so nobody lets his turn pass
	}
	for t := p.line.first; t != nil && free > 0; t = t.next {
		if !t.stands() {
			continue
		}
		able = append(able, t)
		if t.session.stalled {
			continue
		}
		free--
		if first {
			first, t.could = false, true
			if t.couldSince == 0 {
				t.couldSince = max(now, 1)
			}
		}
	}
	for _, t := range old {
		if !t.could {
			t.couldSince = 0
		}
	}
	p.line.able = able
}
