package sim

import (
	"time"

	"github.com/kvslots/kvslots/kvslots/internal/entry"
	"github.com/kvslots/kvslots/kvslots/internal/peer"
)

// operator registers a pool, and changes and deletes it at times.
type operator struct {
	user
	pool entry.Hash
}

func (o *operator) step() {
	if o.s.ending {
		o.finished()
		return
	}
	if o.chance(o.s.plan.Clients.Administer) && o.chance(0.3) {
		o.ask(peer.Delete{Pool: o.pool}, func(*call) {
			if o.chance(0.5) {
				o.register() // at once: what was under way is of the generation before
			} else {
				o.think(o.step)
			}
		})
		return
	}
	o.register()
}

func (o *operator) register() {
	count := 1 + o.rng.IntN(o.s.plan.Clients.Count)
	if o.chance(0.05) {
		count = 0
	}
	o.askUntil(peer.Register{Pool: o.pool, Count: count}, func(*call) { o.rest() })
}

// rest is what an operator does between changes.
func (o *operator) rest() {
	switch {
	case o.s.ending:
		o.finished()
	case o.chance(o.s.plan.Clients.Administer):
		o.think(o.step)
	case o.chance(0.1):
		o.ask(peer.ReadStats{}, func(*call) { o.think(o.rest) })
	default:
		o.ask(peer.Inspect{Pool: o.pool}, func(c *call) {
			if isAny(c.answer.Err, peer.ErrNoPool) {
				o.think(o.step) // a purged stream has lost it
				return
			}
			o.think(o.rest)
		})
	}
}

// borrower borrows slots of pools.
type borrower struct {
	user
	pool  entry.Hash
	lease entry.Hash
}

func (b *borrower) step() {
	if b.s.ending {
		b.finished()
		return
	}
	b.pool, b.lease = poolID(b.rng.IntN(b.s.plan.Clients.Pools)), b.s.hash()
	b.askImpatiently(peer.Borrow{Pool: b.pool, Lease: b.lease, TTL: b.ttl(), Wait: b.wait()}, errHungUp, func(c *call) {
		if c.answer.Err != nil {
			b.think(b.step)
			return
		}
		if b.chance(0.1) {
			b.follow(c.node)
		}
		b.use()
	})
}

// follow asks the peer that granted the lease to tell when it ends.
func (b *borrower) follow(n *node) {
	if n.usable() {
		b.s.ask(b.name, n, peer.Follow{Pool: b.pool, Lease: b.lease}, nil)
	}
}

// use is while a lease is held.
func (b *borrower) use() {
	b.think(func() {
		switch n := b.rng.IntN(100); {
		case b.s.ending || n < 60:
			b.giveBack()
		case n < 85:
			b.renew()
		case n < 90:
			b.ask(peer.Inspect{Pool: b.pool}, func(*call) { b.use() })
		default:
			b.think(b.step) // it lets the lease expire
		}
	})
}

func (b *borrower) giveBack() {
	r := peer.Return{Held: peer.Held{Pool: b.pool, Lease: b.lease}}
	b.askUntil(r, func(*call) {
		if !b.chance(0.2) {
			b.think(b.step)
			return
		}
		if b.chance(0.5) {
			b.askUntil(r, func(*call) { b.think(b.step) })
			return
		}
		b.askUntil(peer.Renew{Held: r.Held, TTL: time.Second}, func(*call) { b.think(b.step) })
	})
}

func (b *borrower) renew() {
	b.ask(peer.Renew{Held: peer.Held{Pool: b.pool, Lease: b.lease}, TTL: b.ttl()}, func(c *call) {
		if isAny(c.answer.Err, peer.ErrNotHeld, peer.ErrNoPool) && !b.chance(0.3) {
			b.think(b.step)
			return
		}
		b.use()
	})
}
