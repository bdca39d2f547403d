package peer

import (
	"github.com/kvslots/kvslots/kvslots/internal/entry"
	"github.com/kvslots/kvslots/kvslots/internal/rules"
)

// remove purges a pool's configuration, which ends its leases and its generation, and then
// its slots and tickets.
func (p *registry) remove(c *call, r Delete) {
	p.decide(c, func(current bool) bool {
		pool := p.view().Pool(r.Pool)
		if !pool.Exists() {
			if current {
				c.answer(Answer{})
			}
			return current
		}
		generation := pool.Generation()
		p.putFor(c, p.purgeConfig(r.Pool), func(*write) {
			p.clear(r.Pool, generation)
			c.answer(Answer{})
		}, func() { p.remove(c, r) })
		return true
	})
}

func (p *registry) clear(id entry.Hash, generation uint64) {
	pool := p.view().Pool(id)
	if pool == nil {
		return
	}
	for s := range pool.Slots {
		if s.Value.Generation == generation && s.Orphaned() {
			p.discard(rules.SlotKey(id, s.Position), s.Revision, nil)
		}
	}
	for t := range pool.Tickets {
		if t.Value.Generation == generation && t.Key.Session != p.self() && !t.Stands() {
			p.discard(t.Key, t.Revision, nil)
		}
	}
}
