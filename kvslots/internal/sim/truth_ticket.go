package sim

import (
	"github.com/kvslots/kvslots/kvslots/internal/entry"
)

type ticketTruth struct {
	*entry.Entry
	place     uint64
	at        Instant // when it was first written
	stoodAt   Instant // when its place was first written
	rewritten bool    // it was written more than once

	wasInForce bool // at some time its generation was in force and had slots
}

func (p *poolTruth) setTicket(e *entry.Entry, now Instant) {
	t := &ticketTruth{Entry: e, place: e.Ticket.Place, at: now, stoodAt: now}
	if t.place == 0 {
		t.place = e.Revision
	}
	if before := p.tickets[e.Key]; before != nil && before.place == t.place {
		t.stoodAt = before.stoodAt
	}
	if before := p.tickets[e.Key]; before != nil && before.Ticket.Lease == e.Ticket.Lease {
		t.rewritten = true
		t.at, t.wasInForce = before.at, before.wasInForce
	}
	p.dropTicket(e.Key)
	p.tickets[e.Key] = t
	p.borrows[borrowOf(e.Ticket.Lease)]++
}

func (p *poolTruth) dropTicket(key entry.Key) {
	if t := p.tickets[key]; t != nil {
		p.dropLease(t.Ticket.Lease)
		delete(p.tickets, key)
	}
}

// stands reports whether the ticket is waiting, and not being served by a slot. It leaves the
// line by the purge of its own key only. Only a slot that names the ticket serves it: another slot of the same borrow has an earlier claim, which
// was withdrawn, and is back because the stream has lost its purge.
func (p *poolTruth) stands(t *ticketTruth) bool {
	if t.Ticket.Spent || t.Ticket.Generation != p.config.Config.Generation {
		return false
	}
	for _, s := range p.slots {
		if s.Slot.Ticket == t.place {
			return false
		}
	}
	return true
}

// lives reports whether the ticket's author is alive, and the peer that claims for it. Any
// peer claims for an enqueued ticket.
func (t *truth) lives(w *ticketTruth) bool {
	holder := w.holder()
	return (holder.IsZero() || t.sessions[holder] != nil) && (w.Ticket.Enqueued() || w.Ticket.Grace > 0 || t.sessions[w.server()] != nil)
}

// holder returns the client session that the ticket ends with; zero: none.
func (w *ticketTruth) holder() entry.Hash {
	if w.Ticket.Enqueued() {
		return w.Key.Session
	}
	return w.Ticket.Session
}

// isAbsent reports whether the ticket is kept for a repeat, and no caller waits.
func (t *truth) isAbsent(w *ticketTruth) bool {
	return w.Ticket.Grace > 0 && (w.Ticket.Away || t.sessions[w.server()] == nil)
}
