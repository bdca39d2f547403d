package peer

import (
	"github.com/kvslots/kvslots/kvslots/internal/entry"
	"github.com/kvslots/kvslots/kvslots/internal/rules"
)

// claimsFor reports whether this peer has to claim for an enqueued ticket now. No borrow of any peer
// waits for it: a call of Await finds the slot.
func (ps *poolState) claimsFor(t *rules.Ticket) bool {
	return ps.p.self.revision != 0 && ps.p.view.Promotes(t, ps.p.self.id, ps.p.now) && !ps.p.writes.inFlight(ps.id).Serves(t.Place)
}

// claimFor claims a position for an enqueued ticket.
func (ps *poolState) claimFor(t *rules.Ticket, position int) {
	v := &t.Value
	ps.users++
	ps.take(position, entry.SlotValue{
		Lease: v.Lease, Session: t.Key.Session, Ticket: t.Place, Generation: v.Generation, TTL: v.TTL, Label: v.Label, Nonce: v.Nonce,
		Unseen: true, Request: v.Request,
	}, ps.ticketServed)
}

// ticketServed lets the lease of a claim for an enqueued ticket begin, or withdraws the claim.
func (ps *poolState) ticketServed(w *write, r resolution) {
	ps.users--
	switch s := ps.taken(w, r); {
	case s == nil:
	case s.Good():
		ps.p.view.EndAt(s, s.Revision, s.Granted.Add(s.Value.TTL.Duration()))
	default:
		ps.pauseVoid(0)
		ps.p.writes.discard(w.msg.Key, s.Revision, nil)
	}
}
