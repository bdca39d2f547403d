package rules

import (
	"slices"
	"time"

	"github.com/kvslots/kvslots/kvslots/internal/entry"
)

// PromoteGrace is how long a peer waits, for each peer that comes before it, before it
// claims for an enqueued ticket: see View.Promotes.
const PromoteGrace = 300 * time.Millisecond

// Status is what has become of a session's Enqueue in a pool.
type Status uint8

const (
	NotEnqueued Status = iota // the session has not enqueued, or was told the outcome
	Queued                    // its ticket stands in the line
	Served                    // it holds a slot, and has not called Await since
	Spent                     // its lease has ended before it called Await
	Unserved                  // Slot is to be purged: no caller was told of it, and this peer would not grant it, or it names the ticket of an earlier Enqueue
)

// Enqueued is a Status, with the session's ticket and slot, which may be nil.
type Enqueued struct {
	Status Status
	Ticket *Ticket
	Slot   *Slot
}

// EnqueuedKey returns the key of the ticket that a session has enqueued in a pool.
func EnqueuedKey(pool, session entry.Hash) entry.Key {
	return entry.Key{Kind: entry.Ticket, Pool: pool, Session: session}
}

// EnqueuedIn returns what has become of a session's Enqueue. NotEnqueued, Spent and
// Unserved are only certain if the view is live.
func (v *View) EnqueuedIn(pool *Pool, session entry.Hash) Enqueued {
	var e Enqueued
	s := v.Session(session)
	if pool == nil || s == nil {
		return e
	}
	for _, slot := range s.Slots {
		// A claim without a ticket is of a later Enqueue than a void one that names a ticket.
		if slot.Pool == pool && slot.Live() && slot.Value.Unseen && (e.Slot == nil || slot.Value.Ticket == 0) {
			e.Slot = slot
		}
	}
	e.Ticket = pool.TicketAt(EnqueuedKey(pool.ID, session))
	switch t, s := e.Ticket, e.Slot; {
	case s != nil && (!s.Good() && s.Value.Ticket != 0 || s.Excluded() || e.Place() != s.Value.Ticket): // no caller was told of it
		e.Status = Unserved
	case s != nil:
		e.Status = Served
	case t == nil:
	case t.Value.Spent:
		e.Status = Spent
	case t.Stands() || t.Claimed():
		e.Status = Queued
	}
	return e
}

// Place returns the place of the ticket, or of the ticket that the slot served, or 0. If
// the slot names another ticket, it was claimed for an earlier Enqueue, whose ticket was
// purged before the claim reached the stream.
func (e Enqueued) Place() uint64 {
	switch {
	case e.Slot != nil && (e.Ticket == nil || e.Slot.Value.Ticket == 0):
		return e.Slot.Value.Ticket
	case e.Ticket != nil:
		return e.Ticket.Place
	}
	return 0
}

// Request returns the request key of the Enqueue, and the ttl that it asked for.
func (e Enqueued) Request() (key entry.Hash, asked entry.Span) {
	if e.Slot != nil {
		return e.Slot.Value.Request, e.Slot.Value.Asked
	}
	return e.Ticket.Value.Request, e.Ticket.Value.TTL
}

// Promotes reports whether a peer has to claim for an enqueued ticket now. First comes
// the ticket's own peer, then the live peers by the order of their presences.
func (v *View) Promotes(t *Ticket, self entry.Hash, now Instant) bool {
	first := t.Value.Peer
	if first == self {
		return true
	}
	before := 0 // peers that come before this one
	for s := range v.Peers {
		if s.ID == first || slices.Compare(s.ID[:], self[:]) < 0 {
			before++
		}
	}
	return before == 0 || t.turnSince != 0 && now.Sub(t.turnSince) >= PromoteGrace*time.Duration(before)
}
