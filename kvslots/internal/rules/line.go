package rules

import (
	"cmp"
	"math"
	"slices"

	"github.com/kvslots/kvslots/kvslots/internal/entry"
)

// Ticket is a place in a pool's waiting line, or what is left of one: a ticket
// that was served and is still to be purged, or the marker of one that was.
type Ticket struct {
	Pool *Pool
	Key  entry.Key
	record
	Place  uint64 // the revision of its first write, by which the line is ordered
	Value  entry.TicketValue
	Seen   Instant // when it came
	Unsure bool    // the view skipped what ended a claim that named it: to others it may be out of the line

	author     *Session // whose end is the ticket's end
	server     *Session // the peer that claims for it: the author, but for a client session's ticket
	claim      *Slot    // the live slot that names it
	doubted    Instant  // when it was learnt that an entry was skipped that may have served it; 0: never
	doubtedAt  uint64   // where the view stood then
	couldSince Instant  // since when it has been its turn; 0 while it is not
	able       bool     // there is a permit for it
	passed     bool     // an enqueued ticket that let its turn pass
	lined      bool     // it is in the line
}

// Stands reports whether the ticket is in the line: it can be read and was not
// served, its author and its peer are alive, its pool is the one it was drawn for,
// and no live slot names it.
func (t *Ticket) Stands() bool {
	return t.lined && t.author.Alive() && (t.Value.Enqueued() || t.server.Alive()) &&
		!t.Value.Spent && t.Value.Generation == t.Pool.Generation() && !t.Claimed()
}

// CouldSince is since when it has been the ticket's turn; ok is false while it
// is not.
func (t *Ticket) CouldSince() (at Instant, ok bool) { return t.couldSince, t.couldSince != 0 }

// Claimed reports whether a live slot names the ticket.
func (t *Ticket) Claimed() bool {
	return t.claim != nil && t.claim.Live() && t.claim.Value.Ticket == t.Place
}

// stalled reports whether the ticket is passed over: on its own account if any peer
// may claim for it, and else with all the others of its peer.
func (t *Ticket) stalled() bool {
	if t.Value.Enqueued() {
		return t.passed
	}
	return t.server.stalled
}

// waits reports whether the ticket stands and is not passed over.
func (t *Ticket) waits() bool { return t.Stands() && !t.stalled() }

// doubtTickets notes that entries of a slot were skipped, the last of them at
// that revision: a claim and the purge of its lease, perhaps. A ticket of the
// line may have been served. If so, its own peer takes it out of the line soon.
func (p *Pool) doubtTickets(revision, stands uint64, now Instant) {
	for _, t := range p.line.tickets[:p.line.search(revision)] {
		t.doubted, t.doubtedAt = max(now, 1), stands
	}
}

// clearDoubts ends the doubt about the enqueued tickets, for the view is exact up
// to a barrier that was sent while it stood at sent. Such a ticket is taken out
// of the line, or marked as spent, before the slot that it was served by is
// purged: so if it still stands it was not served.
func (p *Pool) clearDoubts(sent uint64) {
	for _, t := range p.line.tickets {
		if t.doubted != 0 && t.Value.Enqueued() && t.doubtedAt <= sent {
			t.doubted = 0
		}
	}
}

// Doubtful reports whether the ticket may have been served.
func (t *Ticket) Doubtful(now Instant) bool { return t.doubted != 0 && now-t.doubted < doubtTime }

// line is the waiting line of a pool.
type line struct {
	tickets []*Ticket             // in order of place
	byKey   map[entry.Key]*Ticket // all that is known, lined up or not
	able    []*Ticket             // those for which there is a permit
	spare   []*Ticket             // memory for able
}

// search is the index of the first ticket at that place or behind it.
func (l *line) search(place uint64) int {
	i, _ := slices.BinarySearchFunc(l.tickets, place, func(t *Ticket, place uint64) int { return cmp.Compare(t.Place, place) })
	return i
}

// add lines up a ticket. One that was written again keeps its place.
func (l *line) add(t *Ticket) {
	t.lined = true
	l.tickets = slices.Insert(l.tickets, l.search(t.Place+1), t)
}

func (l *line) remove(t *Ticket) {
	t.lined = false
	i := l.search(t.Place)
	i += slices.Index(l.tickets[i:], t)
	if i == 0 { // the usual case: the others need not move
		l.tickets[0], l.tickets = nil, l.tickets[1:]
	} else {
		l.tickets = slices.Delete(l.tickets, i, i+1)
	}
}

// count counts the tickets before a place of which that is true, but not beyond most.
func (l *line) count(before uint64, most int, is func(*Ticket) bool) int {
	n := 0
	for _, t := range l.tickets {
		if t.Place >= before || n >= most {
			break
		}
		if is(t) {
			n++
		}
	}
	return n
}

// ahead counts the tickets that wait before the given place, up to most.
func (p *Pool) ahead(place uint64, most int) int {
	return p.line.count(place, most, (*Ticket).waits)
}

// Waiting is the number of tickets that stand in the line.
func (p *Pool) Waiting() int { return p.WaitingUpTo(math.MaxInt) }

// WaitingUpTo counts them, but not beyond most.
func (p *Pool) WaitingUpTo(most int) int {
	return p.line.count(math.MaxUint64, most, (*Ticket).Stands)
}

// Ticket is the ticket of that place, or nil when it has left the line.
func (p *Pool) Ticket(place uint64) *Ticket {
	if p == nil {
		return nil
	}
	if i := p.line.search(place); i < len(p.line.tickets) && p.line.tickets[i].Place == place {
		return p.line.tickets[i]
	}
	return nil
}

// TicketAt is the ticket under a key, served or not, or nil where the key is free.
func (p *Pool) TicketAt(key entry.Key) *Ticket {
	if p == nil {
		return nil
	}
	if t := p.line.byKey[key]; t != nil && t.Taken {
		return t
	}
	return nil
}

// Tickets calls yield for every ticket of the line, in order of place, until it
// returns false.
func (p *Pool) Tickets(yield func(*Ticket) bool) { slices.Values(p.line.tickets)(yield) }

// Able are the tickets for which there is a permit, those passed over included.
// The slice is good until the next change of the world.
func (p *Pool) Able() []*Ticket { return p.line.able }

// refreshAble finds the tickets for which there is a permit. A ticket that is
// passed over uses up none.
func (p *Pool) refreshAble(now Instant) {
	if len(p.line.tickets) == 0 && len(p.line.able) == 0 {
		return
	}
	old := p.line.able
	able := p.line.spare[:0]
	for _, t := range old {
		t.able = false
	}
	free := p.Count() - p.live.len()
	for _, t := range p.line.tickets {
		if free <= 0 {
			break
		}
		if !t.Stands() {
			continue
		}
		able = append(able, t)
		if t.stalled() {
			continue
		}
		free--
		t.able = true
		if t.couldSince == 0 {
			t.couldSince = max(now, 1)
		}
	}
	for i, t := range old {
		if !t.able {
			t.couldSince = 0
		}
		old[i] = nil
	}
	p.line.able, p.line.spare = able, old[:0]
}
