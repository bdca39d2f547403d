package peer

import (
	"github.com/kvslots/kvslots/kvslots/internal/entry"
	"github.com/kvslots/kvslots/kvslots/internal/rules"
)

// remove purges a pool's configuration, which ends its leases and its generation, and then
// its slots and tickets.
func (p *pools) remove(c *call, r Delete) {
	c.decide(func(current bool) bool {
		pool := p.view.Pool(r.Pool)
		if !pool.Exists() {
			if current {
				c.answer(Answer{})
			}
			return current
		}
		generation := pool.Generation()
		c.put(p.purgeConfig(r.Pool), func(resolution) {
			p.clear(r.Pool, generation)
			c.answer(Answer{})
		}, func() { p.remove(c, r) })
		return true
	})
}

// clear purges the slots and tickets of a generation that has ended.
func (p *pools) clear(id entry.Hash, generation uint64) {
	pool := p.view.Pool(id)
	if pool == nil {
		return
	}
	for s := range pool.Slots {
		if s.Value.Generation == generation && s.Orphaned() {
			p.writes.discard(rules.SlotKey(id, s.Position), s.Revision, nil)
		}
	}
	for t := range pool.Tickets {
		if t.Value.Generation == generation && t.Key.Session != p.self.id && !t.Stands() {
			p.writes.discard(t.Key, t.Revision, nil)
		}
	}
}
