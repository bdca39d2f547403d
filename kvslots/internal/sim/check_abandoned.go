package sim

import (
	"time"

	"github.com/kvslots/kvslots/kvslots/internal/entry"
	"github.com/kvslots/kvslots/kvslots/internal/peer"
)

// abandonedTime is how long a peer without faults may take to purge what it has written
// for a borrow that ended in an error.
const abandonedTime = 3 * time.Second

// checkAbandoned fails the run if a borrow that was answered with an error leaves a claim or
// a ticket in the stream, although its peer runs: nobody would return the slot.
func (k *checker) checkAbandoned(c *call) {
	switch c.request.(type) {
	case peer.Borrow, peer.Acquire:
	default:
		return
	}
	s, n := k.s, c.node
	if c.answer.Err == nil || n.peer == nil || n.closing {
		return
	}
	within := abandonedTime + 8*s.maxLatency()
	if c.facts.key != nil {
		within += s.plan.Grace
	}
	s.after(within, n.alive(func() {
		if n.closing || n.pauses > 0 || !s.faultState.settledAt(c.end) || k.mayReflectLoss(c) || !c.facts.key.endedWith(c) {
			return
		}
		if e := s.server.truth.pool(c.target.pool).leftOf(c.target.lease); e != nil {
			s.fail("abandoned", "%v ago call %d of %s to %s was answered %v, and its entry is still in the stream: %s",
				within, c.id, c.client, n.name(), c.answer.Err, describeEntry(e))
		}
	}))
}

// leftOf returns an entry that was written for a borrow, or nil.
func (p *poolTruth) leftOf(lease entry.Hash) (found *entry.Entry) {
	b := borrowOf(lease)
	if p.borrows[b] == 0 {
		return nil
	}
	for _, e := range p.slots {
		if borrowOf(e.Slot.Lease) == b && (found == nil || e.Revision < found.Revision) {
			found = e
		}
	}
	for _, t := range p.tickets {
		if borrowOf(t.Ticket.Lease) == b && (found == nil || t.Revision < found.Revision) {
			found = t.Entry
		}
	}
	return found
}
