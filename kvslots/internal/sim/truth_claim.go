package sim

import (
	"github.com/kvslots/kvslots/kvslots/internal/entry"
	"github.com/kvslots/kvslots/kvslots/internal/rules"
)

// claimKey is a claim's slot and its fence.
type claimKey struct {
	slot  entry.Key
	fence uint64
}

// claimOf returns the claim of a position's lease, and whether the stream has it.
func (t *truth) claimOf(pool entry.Hash, position int, fence uint64) (*claim, bool) {
	c, ok := t.claims[claimKey{rules.SlotKey(pool, position), fence}]
	return c, ok
}

// claim describes the pool at the moment when a slot was taken.
type claim struct {
	at               Instant
	revision         uint64
	pool             *poolTruth
	position         int
	lease            entry.Hash
	ticket           uint64      // the ticket that it serves; 0 for none
	ticketStood      bool        // the ticket that it serves stood in the line
	count            int         // the pool's count
	idleOut          int         // positions out of service without a slot
	isOut            bool        // its own position is out of service
	void             bool        // whatever tickets are passed over, the claim is not good
	doubtful         bool        // no peer that follows the stream would grant it, whatever tickets it passes over, and none has
	freeBelow        int         // free positions below its own
	ticketsAhead     int         // living tickets that stood before its own in the line
	undisturbed      int         // number of those that no fault has affected, so that no peer may pass them over
	firstUndisturbed ticketTruth // the first of the undisturbed tickets
}

// claim describes the pool at the moment when e takes a slot.
func (p *poolTruth) claim(s *Simulation, e *entry.Entry) *claim {
	c := &claim{idleOut: p.idleOut(), isOut: p.isOut(e.Key.N), at: s.now, revision: e.Revision, pool: p, position: e.Key.N, lease: e.Slot.Lease, ticket: e.Slot.Ticket, count: p.count(), ticketStood: e.Slot.Ticket == 0}
	for i := range e.Key.N {
		if _, taken := p.slots[i]; !taken && !p.isOut(i) {
			c.freeBelow++
		}
	}
	place := e.Slot.Ticket
	if place == 0 {
		place = e.Revision
	}
	for _, t := range p.tickets {
		c.ticketStood = c.ticketStood || t.place == place && p.stands(t)
		if t.place < place && p.stands(t) && s.server.truth.lives(t) && !s.server.truth.isAbsent(t) {
			c.ticketsAhead++
			if s.faultState.settledAt(t.at) && (s.check.lines.isEnqueuedAlive(t) || !t.rewritten && s.check.isWaiting(p, t.Ticket.Lease)) && !s.check.lines.mayBePassedOver(t) {
				if c.undisturbed++; c.undisturbed == 1 || t.place < c.firstUndisturbed.place {
					c.firstUndisturbed = *t
				}
			}
		}
	}
	live := 1
	for i, o := range p.slots {
		if i != e.Key.N && s.server.truth.holds(p, o) {
			live++
		}
	}
	c.void = !s.server.truth.holds(p, e) || !c.ticketStood || c.position >= c.count || c.isOut || live+c.idleOut > c.count || c.freeBelow > c.ticketsAhead
	c.doubtful = c.void || p.repeats(e) || live+c.idleOut+c.undisturbed > c.count
	return c
}

// repeats reports whether another slot has the request key of a claim.
func (p *poolTruth) repeats(e *entry.Entry) bool {
	for i, o := range p.slots {
		if i != e.Key.N && !e.Slot.Request.IsZero() && o.Slot.Request == e.Slot.Request && p.truth.holds(p, o) {
			return true
		}
	}
	return false
}

// holds reports whether a slot is lent: its generation is in force, and its session, if it
// has one, is alive.
func (t *truth) holds(p *poolTruth, e *entry.Entry) bool {
	return p.registered() && e.Slot.Generation == p.config.Config.Generation &&
		(e.Slot.Session.IsZero() || t.sessions[e.Slot.Session] != nil)
}
