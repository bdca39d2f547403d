package peer

import (
	"github.com/kvslots/kvslots/kvslots/internal/entry"
	"github.com/kvslots/kvslots/kvslots/internal/rules"
)

// whenPool calls do with a pool that exists, when the view is live and as new as now and no
// claim of the pool may be withdrawn.
func (p *leases) whenPool(c *call, id entry.Hash, do func(*rules.Pool)) {
	p.whenKnown(c, id, func(pool *rules.Pool) {
		if pool.Exists() {
			do(pool)
		} else {
			c.answer(Answer{Err: ErrNoPool})
		}
	})
}

// whenKnown is whenPool for a pool that need not exist.
func (p *leases) whenKnown(c *call, id entry.Hash, do func(*rules.Pool)) {
	p.whenCurrent(c, func() { p.whenCertain(c, id, do) })
}

// whenCertain calls do when no claim of a pool may be withdrawn.
func (p *leases) whenCertain(c *call, id entry.Hash, do func(*rules.Pool)) {
	if pool := p.view().Pool(id); !pool.InDoubt(p.now()) {
		do(pool)
		return
	}
	p.after(c, inFlightPause, func() { p.whenCertain(c, id, do) })
}
