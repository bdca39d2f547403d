package peer

import (
	"github.com/kvslots/kvslots/kvslots/internal/entry"
	"github.com/kvslots/kvslots/kvslots/internal/rules"
)

// serveLine claims for the tickets whose turn it is.
func (ps *poolState) serveLine(pool *rules.Pool) {
	if pool == nil {
		return
	}
	for _, t := range pool.Able() {
		b := ps.tickets[t.Key]
		switch {
		case t.Value.Enqueued() && ps.claimsFor(t):
		case b == nil || b.phase != waiting || b.enqueued() || b.ticket.place != t.Place || t.Server() != ps.p.self():
			continue
		case pool.Requested(b.request) != nil: // a claim would be void
			b.lookForSlot()
			continue
		}
		if !t.Fits() {
			ps.p.names.setLimitOf(t)
			return
		}
		position, ok := pool.Choose(t, ps.p.inFlight(ps.id))
		switch {
		case !ok || !ps.mayTake(pool.Slot(position), position):
			return
		case t.Value.Enqueued():
			ps.claimFor(t, position)
		default:
			b.sendClaim(position, b.generation)
		}
	}
}

// claimsFor reports whether this peer has to claim for an enqueued ticket now. No borrow of any peer
// waits for it: a call of Await finds the slot.
func (ps *poolState) claimsFor(t *rules.Ticket) bool {
	return ps.p.isPresent() && ps.p.view().Promotes(t, ps.p.self(), ps.p.now()) && !ps.p.inFlight(ps.id).Serves(t.Place)
}

// claimFor claims a position for an enqueued ticket.
func (ps *poolState) claimFor(t *rules.Ticket, position int) {
	v := &t.Value
	ps.users++
	ps.take(position, entry.SlotValue{
		Lease: v.Lease, Session: t.Key.Session, Ticket: t.Place, Generation: v.Generation, TTL: v.TTL, Label: v.Label, Nonce: v.Nonce,
		Unseen: true, Request: v.Request, Limit: v.Limit,
	}, ps.ticketServed)
}

// ticketServed lets the lease of a claim for an enqueued ticket begin, or withdraws the claim.
func (ps *poolState) ticketServed(w *write) {
	ps.users--
	switch s := ps.taken(w); {
	case s == nil:
	case s.Good():
		ps.p.view().EndAt(s, s.Revision, s.Granted.Add(s.Value.TTL.Duration()))
	default:
		ps.pauseVoid(0)
		ps.p.discard(w.key(), s.Revision, nil)
	}
}
