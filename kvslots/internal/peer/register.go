package peer

import (
	"time"

	"github.com/kvslots/kvslots/kvslots/internal/entry"
	"github.com/kvslots/kvslots/kvslots/internal/rules"
)

// idleNoted is how long a pool must have been idle for a registration that changes nothing
// to be written, so that all peers see the use. Many callers may register a pool at once.
const idleNoted = time.Second

func configKey(pool entry.Hash) entry.Key { return entry.Key{Kind: entry.Config, Pool: pool} }

func (r Inspect) begin(p *Peer, c *call) {
	p.reads.whenCurrent(c, func() { c.inspect(r.Pool, Answer{Err: ErrNoPool}) })
}

// inspect answers with a pool's state, or with gone if the pool is not registered.
func (c *call) inspect(id entry.Hash, gone Answer) {
	c.whenCertain(id, func(pool *rules.Pool) {
		if !pool.Registered() {
			c.answer(gone)
			return
		}
		c.answer(Answer{State: State{Count: pool.Size(), InUse: pool.InUse(), Waiting: pool.Waiting()}})
	})
}

// whenCertain calls do when the view is exact and no claim of a pool may be withdrawn.
func (c *call) whenCertain(id entry.Hash, do func(*rules.Pool)) {
	if pool := c.p.view.Pool(id); c.p.view.Exact() && !pool.InDoubt(c.p.now) {
		do(pool)
		return
	}
	c.after(inFlightPause, func() { c.p.reads.whenExact(func() { c.whenCertain(id, do) }) })
}

func (r Register) begin(_ *Peer, c *call) { r.register(c) }

// register writes a pool's configuration, unless it is right already, or the cap on pools
// leaves no room: a late view may not show the pool yet, or that another one was deleted.
// The answer is the state after the write.
func (r Register) register(c *call) {
	c.when(func() bool {
		pool := c.p.view.Pool(r.Pool)
		return !r.registered(c.p, pool) && (pool.Registered() || c.mayRegister())
	}, func() { r.write(c) }, func() {
		if !c.p.view.Pool(r.Pool).Registered() {
			c.answer(Answer{Err: ErrMaxPools})
			return
		}
		c.inspect(r.Pool, Answer{})
	})
}

func (r Register) write(c *call) {
	value := entry.ConfigValue{}
	if pool := c.p.view.Pool(r.Pool); pool.Registered() {
		value = pool.Config
	}
	value.Count, value.Closing = r.Count, false
	if value.Generation == 0 {
		put(&c.p.calls.registering, c.id, struct{}{})
		value.Generation = c.p.randomNumber()
	}
	c.writePool(r.Pool, value, 0, func(revision uint64) {
		delete(c.p.calls.registering, c.id)
		gone := Answer{State: State{Count: r.Count}} // deleted since: answer as for a pool without leases
		c.p.reads.whenExactAt(c, revision, func() { c.inspect(r.Pool, gone) })
	}, func() { r.register(c) })
}

// registered reports whether nothing has to be written to register the pool: it has the
// count, and is not counted as idle.
func (r Register) registered(p *Peer, pool *rules.Pool) bool {
	return pool.Registered() && !pool.Closing() && pool.Size() == r.Count &&
		(p.cfg.PoolIdle == 0 || pool.InUseOrWaited() || p.now.Sub(pool.LastUse()) < idleNoted)
}

// mayRegister reports whether the cap on pools allows another one. It counts the
// registrations of this peer that its view does not show yet.
func (c *call) mayRegister() bool {
	most, registering := c.p.cfg.MaxPools, c.p.calls.registering
	_, again := registering[c.id]
	return again || most == 0 || c.p.view.Registered.Pools+len(registering) < most
}

// writePool writes the configuration of a pool. It calls then when the view has reached
// the write, or again if the write was refused. If an earlier copy of the write may have
// been written unseen, the call is answered ErrUnavailable, so that it takes effect once.
func (c *call) writePool(id entry.Hash, value entry.ConfigValue, ttl time.Duration, then func(uint64), again func()) {
	key := configKey(id)
	expected, _ := c.p.view.Stands(key)
	value.Before = c.p.view.Pool(id).Before(value.Generation)
	c.putOnce(entry.NewMessage(key, value, expected, ttl), then, func() {
		if c.unsure {
			c.answer(Answer{Err: ErrUnavailable})
		} else {
			again()
		}
	})
}

func (r Delete) begin(_ *Peer, c *call) { r.remove(c) }

// remove marks a pool as deleted, which ends its leases and its generation, and purges
// its slots and tickets. The mark lives for DeletionTTL, since the configuration has no
// TTL that a marker could outlive.
func (r Delete) remove(c *call) {
	c.when(func() bool { return c.p.view.Pool(r.Pool).Registered() }, func() {
		value := c.p.view.Pool(r.Pool).Config
		value.Deleted = true
		c.writePool(r.Pool, value, rules.DeletionTTL, func(uint64) {
			c.p.clear(r.Pool, value.Generation)
			c.answer(Answer{})
		}, func() { r.remove(c) })
	}, func() { c.answer(Answer{}) })
}

// clear purges the slots and tickets of a generation that has ended.
func (p *Peer) clear(id entry.Hash, generation uint64) {
	pool := p.view.Pool(id)
	if pool == nil {
		return
	}
	for s := range pool.Slots {
		if s.Value.Generation == generation && s.Orphaned() {
			p.writes.release(rules.SlotKey(id, s.Position), s.Revision, nil)
		}
	}
	for t := range pool.Tickets {
		if t.Value.Generation == generation && t.Key.Session != p.self.id && !t.Stands() {
			p.writes.release(t.Key, t.Revision, nil)
		}
	}
}
