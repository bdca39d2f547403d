package peer

import (
	"time"

	"github.com/kvslots/kvslots/kvslots/internal/entry"
	"github.com/kvslots/kvslots/kvslots/internal/rules"
)

// idleNoted is how long a pool must have been idle for a registration that changes nothing
// to be written, so that all peers see the use. Many callers may register a pool at once.
const idleNoted = time.Second

// register writes a pool's configuration, unless a view that is live and as new as the
// call shows that it is up to date, or that the cap on pools leaves no room. The answer is
// the state after the write.
func (p *pools) register(c *call, r Register) {
	c.when(func() bool { return r.mayWrite(p) }, func() { r.write(p, c) }, func() { r.review(p, c) })
}

// mayWrite reports whether something has to be written, and the cap on pools allows it.
func (r Register) mayWrite(p *pools) bool {
	pool := p.view.Pool(r.Pool)
	return !r.repeats(pool) && !r.isUpToDate(p, pool) && (pool.Exists() || r.cap(p, true) == nil)
}

// review decides about a registration in a view that is live and as new as the request.
func (r Register) review(p *pools, c *call) {
	pool := p.view.Pool(r.Pool)
	switch err := r.cap(p, false); {
	case r.repeats(pool) && (pool.Size() != r.Count || r.Title != nil && *r.Title != pool.Config.Title):
		c.answer(Answer{Err: ErrKeyReused})
	case r.mayWrite(p):
		r.write(p, c)
	case pool.Exists():
		p.answerState(c, r.Pool, Answer{})
	case err != nil:
		c.answer(Answer{Err: err})
	default: // a registration under way may fail
		c.afterLive(failurePause, func() { r.review(p, c) })
	}
}

func (r Register) write(p *pools, c *call) {
	var w *write
	value := entry.ConfigValue{}
	if pool := p.view.Pool(r.Pool); pool.Exists() {
		value = pool.Config
	}
	value.Count, value.Closing, value.Request = r.Count, false, r.Request
	if r.Title != nil {
		value.Title = *r.Title
	}
	if value.Generation == 0 {
		put(&p.registering, r.Pool, struct{}{})
		c.quit = func(why error) {
			w.countsUntil(func() { delete(p.registering, r.Pool) })
			c.answer(Answer{Err: why})
		}
		value.Generation, value.Origin = p.randomNumber(), r.Origin
	}
	w = p.writePool(c, r.Pool, value, func(resolution) {
		gone := Answer{State: State{Count: r.Count}} // deleted since: answer as for a pool without leases
		p.answerState(c, r.Pool, gone)
	}, func() {
		delete(p.registering, r.Pool)
		p.register(c, r)
	})
}

// repeats reports whether the request key is that of the pool's last registration.
func (r Register) repeats(pool *rules.Pool) bool {
	return !r.Request.IsZero() && pool.Exists() && !pool.Closing() && pool.Config.Request == r.Request
}

// isUpToDate reports whether a registration need not be written: the pool has the count
// already, and would not be counted as idle.
func (r Register) isUpToDate(p *pools, pool *rules.Pool) bool {
	return pool.Exists() && !pool.Closing() && pool.Size() == r.Count && pool.Config.Request == r.Request && (r.Title == nil || *r.Title == pool.Config.Title) &&
		(p.cfg.PoolIdle == 0 || pool.InUseOrWaited() || p.now.Sub(pool.LastUse()) < idleNoted)
}

// cap returns which cap forbids this pool, or nil. If underWay is set, it counts this peer's
// registrations that the view does not show yet.
func (r Register) cap(p *pools, underWay bool) error {
	n := p.view.Registered.Pools
	if _, again := p.registering[r.Pool]; underWay && !again {
		n += len(p.registering)
	}
	switch {
	case p.cfg.MaxPools > 0 && n >= p.cfg.MaxPools:
		return ErrMaxPools
	case p.view.TombstonesReach(p.cfg.MaxTombstones, r.Origin):
		return ErrMaxTombstones
	}
	return nil
}

// writePool writes the configuration of a pool. It calls then when the view has reached
// the write, or again if the write was refused.
func (p *pools) writePool(c *call, id entry.Hash, value entry.ConfigValue, then func(resolution), again func()) *write {
	key := rules.ConfigKey(id)
	expected, _ := p.view.Latest(key)
	return c.put(entry.NewMessage(key, value, expected, 0), then, again)
}
