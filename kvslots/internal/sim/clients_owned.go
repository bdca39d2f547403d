package sim

import (
	"fmt"

	"github.com/kvslots/kvslots/kvslots/internal/entry"
	"github.com/kvslots/kvslots/kvslots/internal/peer"
)

// ownedDialect is the namespace of locks that belong to an owner instead of a session.
const ownedDialect = "owned"

type owner struct {
	baseClient
	pool entry.Hash
}

func (o *owner) step() {
	if o.s.ending {
		o.finish()
		return
	}
	name := fmt.Sprintf("lock %d", o.rng.IntN(o.s.plan.Clients.OwnedNames))
	o.pool = nameID(ownedDialect, name)
	switch n := o.rng.IntN(100); {
	case n < 10:
		o.ask(peer.ReadPool{Pool: o.pool, MaxHolders: 1}, func(*call) { o.think(o.step) })
		return
	case n < 15:
		o.release(peer.ReleaseOwned{Pool: o.pool, Owner: "nobody", Force: o.chance(0.3)})
		return
	}
	r := peer.Acquire{
		Resource: peer.Resource{Pool: o.pool, Dialect: ownedDialect, Name: name, Lock: true, Limit: 1},
		Lease:    o.s.newHash(), Nonce: o.s.newHash(), Owner: o.name, TTL: o.ttl(), Wait: o.wait(),
	}
	if o.s.plan.Caps.LocksPerOrigin > 0 { // some have none
		r.Origin = [...]entry.Hash{origin(0), origin(1), {}}[o.rng.IntN(3)]
	}
	granted := func(c *call) {
		if c.answer.Err != nil {
			o.think(o.step)
			return
		}
		o.use()
	}
	if !o.chance(o.s.plan.Clients.Keyed) {
		o.askImpatiently(r, errHungUp, granted)
		return
	}
	r.Request = o.s.newHash()
	o.askWithKey(func(int) peer.Request {
		r.Lease, r.Nonce = o.s.newHash(), o.s.newHash()
		return r
	}, granted)
}

func (o *owner) use() {
	o.think(func() {
		switch n := o.rng.IntN(100); {
		case n < 15 && !o.s.ending && o.s.plan.Outages == 0: // see borrower.use
			o.think(o.step) // let the lease expire
		case n < 35 && !o.s.ending:
			o.ask(peer.ReadPool{Pool: o.pool, MaxHolders: 1}, func(*call) { o.use() })
		default:
			o.release(peer.ReleaseOwned{Pool: o.pool, Owner: o.name})
		}
	})
}

func (o *owner) release(r peer.ReleaseOwned) {
	o.askUntilKnown(r, func(*call) {
		if o.chance(0.3) {
			o.askUntilKnown(r, func(*call) { o.think(o.step) })
			return
		}
		o.think(o.step)
	})
}
