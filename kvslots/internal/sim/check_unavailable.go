package sim

import (
	"slices"
	"time"

	"github.com/kvslots/kvslots/kvslots/internal/peer"
)

const loadTime = 2 * time.Second

// checkUnavailable fails the run if a call is answered ErrUnavailable although no fault was
// active, and the consequences of the last one were over when the call began.
func (k *checker) checkUnavailable(c *call) {
	n, slow := c.node, 8*k.s.maxLatency()
	switch {
	case !isAny(c.answer.Err, peer.ErrUnavailable):
	case !k.s.faultState.settledAt(c.start), c.flushFailed:
	case c.start < n.startedAt.Add(loadTime+slow), slow > 2*answerTime: // several writes, one after the other, take longer than a call may
	case k.mayBeTooShort(c):
	default:
		k.wrong(c, "no fault was active")
	}
}

// mayBeTooShort reports whether less than a second may have been left of the lease that a call
// asked for, which a client is not told.
func (k *checker) mayBeTooShort(c *call) bool {
	late := 4*k.s.maxLatency() + k.s.plan.Flush.Delay
	switch c.request.(type) {
	case peer.Await:
		return c.facts.session.shortest[c.target.pool] < time.Second+late
	case peer.Borrow, peer.Acquire, peer.Enqueue, peer.Renew:
	default:
		return false
	}
	if c.target.ttl < time.Second+late {
		return true
	}
	return c.facts.key != nil && slices.ContainsFunc(c.facts.key.ends, func(at Instant) bool {
		return at >= c.start && at < c.end.Add(time.Second+late)
	})
}
