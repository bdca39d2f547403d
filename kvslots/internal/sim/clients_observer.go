package sim

import (
	"github.com/kvslots/kvslots/kvslots/internal/peer"
)

// observer is a client that only reads: the statistics, the state of pools, and whether a
// peer is ready.
type observer struct{ baseClient }

func (o *observer) step() {
	if o.s.ending {
		o.finish()
		return
	}
	o.ask(o.draw(), func(*call) { o.think(o.step) })
}

func (o *observer) draw() peer.Request {
	c := o.s.plan.Clients
	switch n := o.rng.IntN(10); {
	case n < 3:
		return peer.Confirm{}
	case n < 6 || c.Pools == 0:
		return peer.ReadStats{}
	}
	return peer.ReadPool{Pool: poolID(o.rng.IntN(c.Pools))}
}
