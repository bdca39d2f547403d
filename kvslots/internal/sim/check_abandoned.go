package sim

import (
	"slices"
	"time"

	"github.com/kvslots/kvslots/kvslots/internal/entry"
	"github.com/kvslots/kvslots/kvslots/internal/peer"
	"github.com/kvslots/kvslots/kvslots/internal/rules"
)

// abandonedTime is how long a peer without faults may take to purge what it has written
// for a borrow that ended in an error.
const abandonedTime = 3 * time.Second

// abandonedChecker checks that no borrow that was answered with an error, and no Abandon, leaves a claim or
// a ticket in the stream while its peer runs: no client would return the slot. No Enqueue of unknown outcome
// leaves the ticket that it wrote, unless another peer has taken that over, and no CreateSession its session.
type abandonedChecker struct {
	*checker
	calls []*call // that may have left something
}

func (k *abandonedChecker) answered(c *call) {
	switch c.request.(type) {
	case peer.Borrow, peer.Acquire:
		if c.answer.Err == nil {
			return
		}
	case peer.CreateSession:
		if c.answer.Err != peer.ErrUnavailable {
			return
		}
	case peer.Enqueue:
		if c.answer.Err != peer.ErrUnavailable || c.flushFailed { // see leases.takeBack
			return
		}
	case peer.Abandon:
	default:
		return
	}
	if c.node.peer != nil && !c.node.closing {
		c.facts.generation = c.node.generation
		k.calls = append(k.calls, c)
	}
}

// check looks at the calls that were answered so long ago, and so long after the last fault, that
// what they have written must be gone.
func (k *abandonedChecker) check() {
	s := k.s
	within := abandonedTime + 8*s.maxLatency() + s.plan.Grace
	if from := s.now.Add(-within); s.faultState.settledAt(from) {
		k.calls = slices.DeleteFunc(k.calls, func(c *call) bool {
			if c.end <= from {
				k.checkCall(c, within)
			}
			return c.end <= from
		})
	}
}

func (k *abandonedChecker) checkCall(c *call, within time.Duration) {
	n := c.node
	if n.peer == nil || n.closing || n.generation != c.facts.generation || k.mayReflectLoss(c) || k.s.server.mayRevive(c.target.pool) || !c.facts.key.endedWith(c) {
		return
	}
	e := k.leftOf(c)
	if e != nil && !k.mayBeTold(c) {
		k.s.fail("abandoned", "%v ago call %d of %s to %s was answered %v, and its entry is still in the stream: %s",
			k.s.now.Sub(c.end), c.id, c.client, n.name(), c.answer.Err, describeEntry(e))
	}
}

// mayBeTold reports whether a caller may know of the lease of an Abandon: a call with its request key goes
// on, was answered, or may have been by a peer that failed.
func (k *abandonedChecker) mayBeTold(c *call) bool {
	l := c.facts.lease
	if _, abandons := c.request.(peer.Abandon); !abandons || l == nil {
		return false
	}
	key := k.keys[l.request]
	return l.told > 0 || key != nil && (key.open > 0 || !k.s.faultState.settledAt(key.began))
}

func (k *abandonedChecker) leftOf(c *call) *entry.Entry {
	t := k.s.server.truth
	switch r := c.request.(type) {
	case peer.CreateSession:
		return t.sessions[r.Session]
	case peer.Enqueue:
		if w := t.pool(r.Pool).tickets[rules.EnqueuedKey(r.Pool, r.Session)]; w != nil && w.Ticket.Lease == r.Lease && w.Ticket.Place == 0 {
			return w.Entry
		}
		return nil
	}
	return t.pool(c.target.pool).leftOf(c.target.lease)
}

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
