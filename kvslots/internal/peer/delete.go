package peer

import (
	"github.com/kvslots/kvslots/kvslots/internal/entry"
	"github.com/kvslots/kvslots/kvslots/internal/rules"
)

// remove marks a pool as deleted, which ends its leases and its generation, and purges
// its slots and tickets. The mark lives for DeletionTTL, since the configuration has no
// TTL that a marker could outlive.
func (p *pools) remove(c *call, r Delete) {
	c.when(func() bool { return p.view.Pool(r.Pool).Exists() }, func() {
		value := p.view.Pool(r.Pool).Config
		value.Deleted, value.Closing = true, false
		p.writePool(c, r.Pool, value, rules.DeletionTTL, func(resolution) {
			p.clear(r.Pool, value.Generation)
			c.answer(Answer{})
		}, func() { p.remove(c, r) })
	}, func() { c.answer(Answer{}) })
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
