package peer

import (
	"github.com/kvslots/kvslots/kvslots/internal/entry"
	"github.com/kvslots/kvslots/kvslots/reads"
)

// evict ends the lease of a position for an operator, who has seen it with its fence.
func (p *leases) evict(c *call, r Evict) {
	p.decide(c, func(current bool) bool {
		pool := p.view().Pool(r.Pool)
		switch s := pool.Slot(r.Position); {
		case s != nil && s.Live() && s.Fence == r.Fence:
			h := Held{Pool: r.Pool, Lease: s.Value.Lease, Fence: s.Fence}
			h.end(p, c, entry.Mark{Cause: entry.Evicted, By: r.By}, &reads.Detail{Holders: []reads.Holder{holderOf(s, p.now())}})
		case !current:
			return false
		case !pool.Exists():
			c.answer(Answer{Err: ErrNoPool})
		case s == nil || !s.Live():
			c.answer(Answer{Err: ErrNotHeld})
		default:
			c.answer(Answer{Err: ErrOtherHolder})
		}
		return true
	})
}
