package sim

import (
	"encoding/binary"
	"time"

	"github.com/kvslots/kvslots/kvslots/internal/entry"
	"github.com/kvslots/kvslots/kvslots/internal/peer"
)

// operator is a client that registers a pool, and sometimes changes or deletes it.
type operator struct {
	baseClient
	pool entry.Hash
}

func (o *operator) step() {
	if o.s.ending {
		o.finish()
		return
	}
	if o.chance(o.s.plan.Clients.Administer) && o.chance(0.3) {
		o.ask(peer.Delete{Pool: o.pool}, func(*call) {
			if o.chance(0.5) {
				o.register() // at once, while borrows of the previous generation are pending
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
	o.askUntilKnown(peer.Register{Pool: o.pool, Count: count}, func(*call) { o.betweenChanges() })
}

func (o *operator) betweenChanges() {
	switch {
	case o.s.ending:
		o.finish()
	case o.chance(o.s.plan.Clients.Administer):
		o.think(o.step)
	case o.chance(o.s.plan.Clients.Operate):
		o.operate()
	case o.chance(0.1):
		o.ask(peer.ReadStats{}, func(*call) { o.think(o.betweenChanges) })
	default:
		o.ask(peer.ReadPool{Pool: o.pool}, func(c *call) {
			if isAny(c.answer.Err, peer.ErrNoPool) {
				o.think(o.step) // the stream was purged
				return
			}
			o.think(o.betweenChanges)
		})
	}
}

type borrower struct {
	baseClient
	pool  entry.Hash
	lease entry.Hash
}

func (s *Simulation) newBorrow(pool entry.Hash) peer.Borrow {
	first := borrowOf(s.newHash())
	return peer.Borrow{Pool: pool, Lease: first, LeaseOf: func(n int) (lease, nonce entry.Hash) { return leaseOfClaim(first, n), nonce }}
}

func (s *Simulation) withKey(r peer.Borrow, key entry.Hash) peer.Borrow {
	first := borrowOf(s.newHash())
	of := func(n int) (lease, nonce entry.Hash) {
		nonce = leaseOfClaim(first, n)
		return keyedLease(key, nonce), nonce
	}
	r.Request, r.LeaseOf = key, of
	r.Lease, r.Nonce = of(0)
	return r
}

// leaseOfClaim returns the lease of a borrow's claim n, whose claim 0 has the lease first.
func leaseOfClaim(first entry.Hash, n int) entry.Hash {
	const at = len(first) - 2
	binary.BigEndian.PutUint16(first[at:], binary.BigEndian.Uint16(first[at:])+uint16(n))
	return first
}

func borrowOf(lease entry.Hash) entry.Hash {
	clear(lease[len(lease)-2:])
	return lease
}

func (b *borrower) step() {
	if b.s.ending {
		b.finish()
		return
	}
	b.lease = entry.Hash{}
	b.pool = poolID(b.rng.IntN(b.s.plan.Clients.Pools))
	r := b.s.newBorrow(b.pool)
	r.Label = b.name
	r.TTL, r.Wait = b.ttl(), b.wait()
	copies := false // stray ones come while the client uses the lease
	granted := func(c *call) {
		if c.answer.Err != nil {
			b.think(b.step)
			return
		}
		if b.lease = leaseOfClaim(r.Lease, c.answer.Grant.Claim); c.facts.key != nil {
			b.lease = keyedLease(c.target.request, c.answer.Grant.Nonce)
		}
		if c.facts.key != nil && b.chance(0.15) {
			b.abandon(c)
			b.think(b.step)
			return
		}
		if copies {
			b.sendCopy(r, c.target.request, b.lease)
		}
		if b.chance(b.s.plan.Clients.AtOnce) {
			b.renew()
			return
		}
		b.use()
	}
	if !b.chance(b.s.plan.Clients.Keyed) {
		b.askImpatiently(r, errHungUp, granted)
		return
	}
	key := borrowOf(b.s.newHash())
	copies = b.chance(1.0 / 3)
	if b.chance(b.s.plan.Clients.Operate) {
		b.s.after(b.upTo(r.Wait+time.Second), func() { b.ask(peer.ReadPlace{Pool: r.Pool, Request: key}, func(*call) {}) })
	}
	b.askWithKey(func(i int) peer.Request {
		again := b.s.withKey(r, key)
		if i > 0 && b.chance(0.3) {
			again.Wait = b.wait()
		}
		if b.chance(0.03) {
			again.TTL += time.Second
		}
		return again
	}, granted)
}

// sendCopy sends copies of the call that was granted a lease, while the client uses that.
func (b *borrower) sendCopy(r peer.Borrow, key, lease entry.Hash) {
	b.s.after(b.upTo(r.TTL), func() {
		if n := b.node(); n != nil && b.lease == lease && !b.s.ending {
			b.s.met.add("stray copy")
			b.s.ask(b.name, n, b.s.withKey(r, key), func(c *call) {
				if c.answer.Err == nil && b.chance(0.5) {
					b.abandon(c)
				}
			})
			b.sendCopy(r, key, lease)
		}
	})
}

// abandon does as a gateway that could not deliver a lease.
func (b *borrower) abandon(c *call) {
	if g := c.answer.Grant; c.node.serving() {
		b.s.ask(b.name, c.node, peer.Abandon{Pool: c.target.pool, Lease: g.Lease, Sharers: g.Sharers}, nil)
	}
}

func (b *borrower) use() {
	b.think(func() {
		if b.chance(b.s.plan.Clients.Operate / 5) {
			b.ask(peer.ReadLease{Held: peer.Held{Pool: b.pool, Lease: b.lease}}, func(*call) { b.use() })
			return
		}
		switch n := b.rng.IntN(100); {
		case b.s.ending || n < 60 || n >= 90 && b.s.plan.Outages > 0: // a lease that is left would be in the way for minutes
			b.returnLease()
		case n < 85:
			b.renew()
		case n < 90:
			b.ask(peer.ReadPool{Pool: b.pool}, func(*call) { b.use() })
		default:
			b.think(b.step) // let the lease expire
		}
	})
}

func (b *borrower) returnLease() {
	r := peer.Return{Held: peer.Held{Pool: b.pool, Lease: b.lease}}
	b.lease = entry.Hash{}
	b.askUntilKnown(r, func(*call) {
		if !b.chance(0.2) {
			b.think(b.step)
			return
		}
		if b.chance(0.5) {
			b.askUntilKnown(r, func(*call) { b.think(b.step) })
			return
		}
		b.askUntilKnown(peer.Renew{Held: r.Held, TTL: time.Second}, func(*call) { b.think(b.step) })
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
