package rules

import (
	"cmp"
	"math"
	"slices"

	"github.com/kvslots/kvslots/kvslots/internal/entry"
)

// Ticket is a place in a pool's waiting line, a ticket that was served and is still
// to be purged, or the marker of a purged one.
type Ticket struct {
	Pool *Pool
	Key  entry.Key
	record
	Place uint64 // the revision of its first write, which orders the line
	Value entry.TicketValue
	Seen  Instant // when its first entry was written, as far as this peer knows

	session   *Session // the client session that it ends with; nil: none
	server    *Session // the peer that claims for it
	absence   deadline // its element in the view's places.absent
	dropped   bool     // another place of its origin has taken its room: see places
	left      Instant  // since when no caller waits, if it is kept without: see absent; 0: one waits
	claim     *Slot    // a slot that names it, live or not; nil: none
	turnSince Instant  // since when it has been its turn; 0 while it is not
	able      bool     // there is a permit for it, and it is not passed over
	passed    bool     // an enqueued ticket that is passed over
	lined     bool     // it is in line.tickets
}

// Stands reports whether the ticket is in the line: it is not garbage, it is not
// spent, and no live slot names it.
func (t *Ticket) Stands() bool { return !t.Garbage() && !t.Value.Spent && !t.Claimed() }

func (t *Ticket) Claimed() bool {
	return t.claim != nil && t.claim.Live() && t.claim.Value.Ticket == t.Place
}

// Kept reports whether the ticket has a request key and keeps its place for a while when no
// caller waits.
func (t *Ticket) Kept() bool { return t.Value.Grace > 0 }

// Absent reports whether no caller waits at the place, which is kept for a repeat of the request:
// the callers have gone, or their peer has.
func (t *Ticket) Absent() bool { return t.Kept() && (t.Value.Away || !t.server.Alive()) }

// Server returns the presence of the peer that claims for the ticket; zero if it is not in the line.
func (t *Ticket) Server() (presence entry.Hash) {
	if t.server != nil {
		presence = t.server.ID
	}
	return presence
}

// Holder returns the client session that the ticket ends with; zero: none.
func (t *Ticket) Holder() (session entry.Hash) {
	if t.session != nil {
		session = t.session.ID
	}
	return session
}

// stalled reports whether the line passes over the ticket. An enqueued ticket is passed
// over by itself, since any peer may serve it. Any other ticket is passed over together
// with all tickets of its peer, or while no caller waits.
func (t *Ticket) stalled() bool {
	if t.Value.Enqueued() {
		return t.passed
	}
	return t.server.stalled || t.Absent()
}

// waits reports whether the ticket stands and is not passed over.
func (t *Ticket) waits() bool { return t.Stands() && !t.stalled() }

// Label returns the label of the borrow, or that of its client session.
func (t *Ticket) Label() string {
	if t.Value.Label == "" && t.session.Alive() {
		return t.session.Value.Label
	}
	return t.Value.Label
}

// Rank returns the place of a ticket among those that stand in the line, from 1; 0 if it does
// not stand.
func (t *Ticket) Rank() int {
	if !t.lined || !t.Stands() {
		return 0
	}
	return 1 + t.Pool.line.count(t.Place, math.MaxInt, (*Ticket).Stands)
}

type line struct {
	tickets []*Ticket             // in order of place
	byKey   map[entry.Key]*Ticket // every ticket and marker, in the line or not
	able    []*Ticket             // see Able
	spare   []*Ticket             // memory for the next able
}

func (l *line) search(place uint64) int {
	i, _ := slices.BinarySearchFunc(l.tickets, place, func(t *Ticket, place uint64) int { return cmp.Compare(t.Place, place) })
	return i
}

// add adds a ticket to the line. A ticket that was written again keeps its place.
func (l *line) add(t *Ticket) {
	t.lined = true
	l.tickets = slices.Insert(l.tickets, l.search(t.Place+1), t)
}

func (l *line) remove(t *Ticket) {
	t.lined = false
	i := l.search(t.Place)
	i += slices.Index(l.tickets[i:], t)
	if i == 0 { // the usual case: do not move the others
		l.tickets[0], l.tickets = nil, l.tickets[1:]
	} else {
		l.tickets = slices.Delete(l.tickets, i, i+1)
	}
}

// count counts the tickets before a place for which is returns true, up to most.
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

// ahead counts the tickets that wait before a place, without those that own serves, up to most.
func (p *Pool) ahead(place uint64, most int, own *InFlight) int {
	return p.line.count(place, most, func(t *Ticket) bool { return t.waits() && !own.Serves(t.Place) })
}

// Waiting returns the number of tickets that stand in the line.
func (p *Pool) Waiting() int { return p.WaitingUpTo(math.MaxInt) }

// WaitingUpTo returns what Waiting returns, or most if that is less.
func (p *Pool) WaitingUpTo(most int) int {
	return p.line.count(math.MaxUint64, most, (*Ticket).Stands)
}

// LineReaches reports whether the tickets in the line and joining more reach the limit
// most. 0 means no limit.
func (p *Pool) LineReaches(most, joining int) bool {
	return most > 0 && p.WaitingUpTo(most)+joining >= most
}

// Ticket returns the ticket of a place, or nil if it has left the line.
func (p *Pool) Ticket(place uint64) *Ticket {
	if p == nil {
		return nil
	}
	if i := p.line.search(place); i < len(p.line.tickets) && p.line.tickets[i].Place == place {
		return p.line.tickets[i]
	}
	return nil
}

// TicketAt returns the ticket of a key, served or not, or nil if the key is free.
func (p *Pool) TicketAt(key entry.Key) *Ticket {
	if p == nil {
		return nil
	}
	if t := p.line.byKey[key]; t != nil && t.Taken {
		return t
	}
	return nil
}

func (p *Pool) Tickets(yield func(*Ticket) bool) { slices.Values(p.line.tickets)(yield) }

// Line iterates over the tickets that stand in the line, with their places from 1.
func (p *Pool) Line(yield func(int, *Ticket) bool) {
	place := 0
	for _, t := range p.line.tickets {
		if t.Stands() {
			if place++; !yield(place, t) {
				return
			}
		}
	}
}

// Able returns the tickets for which there is a permit and which a peer may claim for. Tickets that
// are passed over use no permit, and are included. The slice is valid until the next change of the view.
func (p *Pool) Able() []*Ticket { return p.line.able }

// refreshAble computes what Able returns. A ticket that is passed over uses no permit.
func (p *Pool) refreshAble(now Instant) {
	old := p.line.able
	able := p.line.spare[:0]
	for _, t := range old {
		t.able = false
	}
	free := p.free()
	for _, t := range p.line.tickets {
		if free <= 0 {
			break
		}
		if !t.Stands() || t.Absent() {
			continue
		}
		able = append(able, t)
		if t.stalled() {
			continue
		}
		free--
		t.able = true
		if t.turnSince == 0 {
			t.turnSince = max(now, 1)
		}
	}
	for i, t := range old {
		if !t.able {
			t.turnSince = 0
		}
		old[i] = nil
	}
	p.line.able, p.line.spare = able, old[:0]
}

// graceOver reports whether no caller has come back to the place in time, or it was dropped before.
func (t *Ticket) graceOver(now Instant) bool {
	return t.left != 0 && t.Absent() && (t.dropped || now.Sub(t.left) >= t.Value.Grace.Duration())
}

// Garbage reports whether the ticket can never stand again: its generation or its client session
// has ended, or the peer that claims for it has, unless another peer may take its part.
func (t *Ticket) Garbage() bool {
	return !t.lined || t.session != nil && !t.session.Alive() || !t.Value.Enqueued() && !t.Kept() && !t.server.Alive() ||
		!t.Value.Spent && t.Value.Generation != t.Pool.Generation()
}

// told reports whether a caller knows of the slot that serves the ticket.
func (t *Ticket) told() bool { return t.Claimed() && !t.claim.Value.Unseen }
