package sim

import (
	"time"

	"github.com/kvslots/kvslots/kvslots/internal/peer"
)

// FlushPlan holds the parameters of a server that acknowledges writes before it has
// flushed them, so that the answers to callers wait for a flush.
type FlushPlan struct {
	Delay time.Duration // maximal time of a flush; 0: answers do not wait
	Fails float64       // share of answers whose flush fails
}

func needsNoFlush(a *peer.Answer) bool {
	return isAny(a.Err, peer.ErrUnavailable, peer.ErrClosed)
}

// flush delivers an answer after a flush. If the flush fails, the client does not get
// the answer.
func (n *node) flush(c *call, a peer.Answer) {
	s := n.s
	n.flushedAt = max(n.flushedAt, s.now.Add(s.upTo(s.plan.Flush.Delay)))
	fails := s.chance(s.plan.Flush.Fails)
	s.at(n.flushedAt, n.alive(func() {
		n.input(func(p *peer.Peer, now Instant) {
			given := a
			if c.flushFailed = fails; fails {
				p.Untold(&a, peer.ErrUnavailable, now)
			} else {
				p.Told(&a, now)
			}
			switch {
			case given.Err != nil || given.Grant.Fence == 0:
			case fails:
				s.met.add("answer: untold grant")
				s.check.untold(c, &given.Grant)
			case a.Err != nil:
				s.met.add("answer: grant told too late")
				s.check.untold(c, &given.Grant)
			default:
				s.met.add("answer: grant told after a flush")
			}
			c.finish(a)
		})
	}))
}
