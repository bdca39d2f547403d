package sim

import (
	"fmt"

	"github.com/kvslots/kvslots/kvslots/internal/entry"
	"github.com/kvslots/kvslots/kvslots/internal/peer"
)

// operate looks at the operator's pool, or at a name, and may end a lease that it finds, or take a
// position out of service. What is out of service at the end stays so.
func (o *operator) operate() {
	pool, name := o.pool, ""
	switch c := o.s.plan.Clients; {
	case c.Session > 0 && o.chance(0.3):
		name = fmt.Sprintf("name %d", o.rng.IntN(c.Names))
		pool = nameID("", name)
	case c.Owned > 0 && o.chance(0.3):
		pool = nameID(ownedDialect, fmt.Sprintf("lock %d", o.rng.IntN(c.OwnedNames)))
	}
	next := func(*call) { o.think(o.betweenChanges) }
	switch o.rng.IntN(8) {
	case 0:
		o.ask(peer.ReadPools{Order: peer.Order(o.rng.IntN(4)), Max: 1000}, next)
	case 1, 2, 3:
		r := peer.SetOut{Pool: pool, Name: name, Out: entry.Out{Position: o.rng.IntN(o.s.plan.Clients.Count+1) - 1, Reason: "broken"}}
		r.InService, r.Origin = o.chance(0.6), origin(uint64(r.Position+1)%3)
		o.askUntilKnown(r, next)
	default:
		o.ask(peer.ReadPool{Pool: pool, MaxHolders: 100, MaxWaiters: 100}, func(c *call) {
			if c.answer.Err != nil || len(c.answer.Detail.Holders) == 0 || o.chance(0.3) {
				next(c)
				return
			}
			h := c.answer.Detail.Holders[o.rng.IntN(len(c.answer.Detail.Holders))]
			r := peer.Evict{Pool: pool, Position: h.Position, Fence: h.Fence}
			if o.chance(0.1) {
				r.Fence += uint64(1 + o.rng.IntN(3))
			}
			o.s.after(o.upTo(2*o.s.plan.Clients.Think), func() { o.ask(r, next) })
		})
	}
}
