package peer

import (
	"github.com/kvslots/kvslots/kvslots/internal/entry"
	"github.com/kvslots/kvslots/kvslots/internal/rules"
)

// evict ends the lease of a position for an operator, who has seen it with its fence.
func (p *pools) evict(c *call, r Evict) {
	held := func() (*rules.Slot, error) {
		pool := p.view.Pool(r.Pool)
		s := pool.Slot(r.Position)
		switch {
		case !pool.Exists():
			return nil, ErrNoPool
		case s == nil || !s.Live():
			return nil, ErrNotHeld
		case s.Fence != r.Fence:
			return nil, ErrOtherHolder
		}
		return s, nil
	}
	c.when(func() bool { s, _ := held(); return s != nil }, func() {
		s, _ := held()
		h := Held{Pool: r.Pool, Lease: s.Value.Lease, Fence: s.Fence}
		h.end(c, entry.Evicted, Answer{Detail: &PoolDetail{PoolStats: statsOf(s.Pool, p.now), Holders: []HolderStats{holderOf(s, p.now)}}})
	}, func() {
		_, err := held()
		c.answer(Answer{Err: err})
	})
}
