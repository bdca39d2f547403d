package peer

import (
	"time"

	"github.com/kvslots/kvslots/kvslots/internal/entry"
	"github.com/kvslots/kvslots/kvslots/internal/rules"
)

// idleNoted is how long a pool must have been idle for a registration that changes nothing
// to be written, so that all peers see the use. Many callers may register a pool at once.
const idleNoted = time.Second

// unknownCounts is how long a registration, or the creation of a session, counts for its
// cap after its outcome has become unknown, unless the view shows it.
const unknownCounts = time.Minute

// countsUntil calls over when a write without a known outcome no longer counts for a cap:
// now if no copy of it can have been written, or after unknownCounts.
func (w *write) countsUntil(over func()) {
	if w.over && len(w.ids) == 0 {
		over()
	} else {
		w.p.after(unknownCounts, over)
	}
}

func configKey(pool entry.Hash) entry.Key { return entry.Key{Kind: entry.Config, Pool: pool} }

func (r Inspect) begin(p *Peer, c *call) {
	p.reads.whenCurrent(c, func() { c.inspect(r.Pool, Answer{Err: ErrNoPool}) })
}

// inspect answers with a pool's state, or with gone if the pool does not exist.
func (c *call) inspect(id entry.Hash, gone Answer) {
	c.whenCertain(id, func(pool *rules.Pool) {
		if !pool.Exists() {
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
	c.afterExact(inFlightPause, func() { c.whenCertain(id, do) })
}

func (r Register) begin(_ *Peer, c *call) { r.register(c) }

// register writes a pool's configuration, unless a view that is exact and as new as the
// call shows that it is up to date, or that the cap on pools leaves no room. The answer is
// the state after the write.
func (r Register) register(c *call) {
	c.when(func() bool { return r.mayWrite(c.p) }, func() { r.write(c) }, func() { r.review(c) })
}

// mayWrite reports whether something has to be written, and the cap on pools allows it.
func (r Register) mayWrite(p *Peer) bool {
	pool := p.view.Pool(r.Pool)
	return !r.isUpToDate(p, pool) && (pool.Exists() || r.fits(p, true))
}

// review decides about a registration in a view that is exact and as new as the request.
func (r Register) review(c *call) {
	switch {
	case r.mayWrite(c.p):
		r.write(c)
	case c.p.view.Pool(r.Pool).Exists():
		c.inspect(r.Pool, Answer{})
	case !r.fits(c.p, false):
		c.answer(Answer{Err: ErrMaxPools})
	default: // a registration under way may fail
		c.afterExact(failurePause, func() { r.review(c) })
	}
}

func (r Register) write(c *call) {
	var w *write
	value := entry.ConfigValue{}
	if pool := c.p.view.Pool(r.Pool); pool.Exists() {
		value = pool.Config
	}
	value.Count, value.Closing = r.Count, false
	if value.Generation == 0 {
		put(&c.p.calls.registering, r.Pool, struct{}{})
		c.quit = func(why error) {
			w.countsUntil(func() { delete(c.p.calls.registering, r.Pool) })
			c.answer(Answer{Err: why})
		}
		value.Generation = c.p.randomNumber()
	}
	w = c.writePool(r.Pool, value, 0, func(revision uint64) {
		gone := Answer{State: State{Count: r.Count}} // deleted since: answer as for a pool without leases
		c.p.reads.whenExactAt(c, revision, func() { c.inspect(r.Pool, gone) })
	}, func() {
		delete(c.p.calls.registering, r.Pool)
		r.register(c)
	})
}

// isUpToDate reports whether a registration need not be written: the pool has the count
// already, and would not be counted as idle.
func (r Register) isUpToDate(p *Peer, pool *rules.Pool) bool {
	return pool.Exists() && !pool.Closing() && pool.Size() == r.Count &&
		(p.cfg.PoolIdle == 0 || pool.InUseOrWaited() || p.now.Sub(pool.LastUse()) < idleNoted)
}

// fits reports whether the cap on pools allows this one. If underWay is set, it counts this
// peer's registrations that the view does not show yet.
func (r Register) fits(p *Peer, underWay bool) bool {
	n := p.view.Registered.Pools
	if _, again := p.calls.registering[r.Pool]; underWay && !again {
		n += len(p.calls.registering)
	}
	return p.cfg.MaxPools == 0 || n < p.cfg.MaxPools
}

// writePool writes the configuration of a pool. It calls then when the view has reached
// the write, or again if the write was refused. If an earlier copy of the write may have
// been written unseen, the call is answered ErrUnavailable, so that it takes effect once.
func (c *call) writePool(id entry.Hash, value entry.ConfigValue, ttl time.Duration, then func(uint64), again func()) *write {
	key := configKey(id)
	expected, _ := c.p.view.Latest(key)
	value.Before = c.p.view.Pool(id).Before(value.Generation)
	return c.putOnce(entry.NewMessage(key, value, expected, ttl), then, func() {
		if c.mayBeWritten {
			c.end(ErrUnavailable)
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
	c.when(func() bool { return c.p.view.Pool(r.Pool).Exists() }, func() {
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
