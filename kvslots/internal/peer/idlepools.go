package peer

import (
	"hash/fnv"
	"math"
	"time"

	"github.com/kvslots/kvslots/kvslots/internal/entry"
	"github.com/kvslots/kvslots/kvslots/internal/rules"
)

// Peers close an idle pool in two steps. First a peer writes into the configuration that
// the pool is being closed: that ends no lease, but allows no new one. Then a peer whose
// exact view has reached that revision restores the pool if a slot is live or a ticket
// stands. Otherwise it purges the configuration of a named pool, or writes other terms;
// it marks a registered pool as deleted. The view shows every claim before the closing,
// and every claim after it is void: so "idle" stays true until the next configuration,
// and all peers that write one expect the same revision.

const (
	idleTime      = time.Minute      // after which an idle name is closed
	maxIdleNames  = 1000             // beyond which it is closed sooner
	closerGrace   = 10 * time.Second // until other peers close a pool
	finisherGrace = time.Second      // until other peers finish a closing
	maxClosings   = 32               // closings under way
)

type closer struct {
	p     *Peer
	timer timer
	mine  map[entry.Hash]struct{} // closings that this peer began
}

// writeConfig writes the configuration of a pool. One such write is pending at a time.
// When its outcome is known, the pool is advanced. A write with unknown outcome is not
// undone: if it takes effect later, it leaves an idle name, or a closing that any peer
// finishes.
func (ps *poolState) writeConfig(value entry.ConfigValue, ttl time.Duration) {
	key := configKey(ps.id)
	revision, _ := ps.p.view.Latest(key)
	value.Before = ps.p.view.Pool(ps.id).Before(value.Generation)
	ps.sendConfig(entry.NewMessage(key, value, revision, ttl), func() {
		if value.Deleted {
			ps.p.counters.IdlePools++
		}
	})
}

func (ps *poolState) sendConfig(m entry.Message, done func()) {
	w := ps.p.writes.put(m, nil)
	ps.config = w
	w.settled = func(f resolution) {
		if f.result == written {
			done()
		}
		if ps.config != w {
			return
		}
		if f.result != written && !f.learnt {
			ps.pause(failurePause)
		}
		ps.config = nil
		ps.mark()
	}
}

func (ps *poolState) beginClosing(pool *rules.Pool) {
	put(&ps.p.closer.mine, ps.id, struct{}{})
	ps.setClosing(pool, true)
}

// restore ends a closing: slots may be taken again.
func (ps *poolState) restore(pool *rules.Pool) {
	if ps.config == nil {
		delete(ps.p.closer.mine, ps.id)
		ps.setClosing(pool, false)
	}
}

func (ps *poolState) setClosing(pool *rules.Pool, closing bool) {
	value := pool.Config
	value.Closing = closing
	ps.writeConfig(value, 0)
}

// finishClosing removes an idle pool that is being closed. The mark of a deleted pool
// lives for DeletionTTL: see Delete.remove. The marker of a named pool need not outlive
// the configuration, which has no TTL: if that came back, it would only be an idle name. But
// the marker must not expire while a view is behind.
func (ps *poolState) finishClosing(pool *rules.Pool) {
	if pool.Terms().Named() {
		key := configKey(ps.id)
		revision, _ := ps.p.view.Latest(key)
		ps.sendConfig(entry.NewPurge(key, revision, rules.Guard+rules.MarkerTTL), func() {})
		return
	}
	value := pool.Config
	value.Deleted = true
	ps.writeConfig(value, rules.DeletionTTL)
}

// idlers are the idle pools of one kind, and how long they may stay.
type idlers struct {
	*rules.IdlePools
	time time.Duration // after which they are closed
	most int           // beyond which they are closed sooner
}

func (c *closer) idlers() [2]idlers {
	v := c.p.view
	return [2]idlers{{&v.IdleNames, idleTime, maxIdleNames}, {&v.Idle, c.p.cfg.PoolIdle, math.MaxInt}}
}

func (i *idlers) due(now Instant) bool {
	pool, since := i.First()
	return pool != nil && (now.Sub(since) >= i.time || i.Len() > i.most)
}

// run finishes closings and begins to close idle pools.
func (c *closer) run() {
	if c.p.watch.mode != live || c.p.closing || c.p.self.revision == 0 {
		return
	}
	exact, waits := c.p.view.Exact(), len(c.p.view.Closings()) > 0
	if exact {
		c.finish()
	}
	for _, i := range c.idlers() {
		if exact {
			c.begin(&i)
		}
		waits = waits || i.due(c.p.now)
	}
	if waits && !exact {
		c.p.reads.whenExact(func() {})
	}
	c.plan()
}

// plan sets the timer that calls run.
func (c *closer) plan() {
	if c.p.watch.mode != live {
		return
	}
	const never = Instant(math.MaxInt64)
	at, soon := never, c.p.now.Add(finisherGrace/4)
	if len(c.p.view.Closings()) > 0 {
		at = soon
	}
	for _, i := range c.idlers() {
		if pool, since := i.First(); i.Len() > i.most {
			at = min(at, soon)
		} else if pool != nil {
			at = min(at, max(since.Add(i.time), c.p.now.Add(finisherGrace)))
		}
	}
	if at != never && (c.timer.index == 0 || at < c.timer.at) {
		c.timer.fire = c.run
		c.p.timers.start(&c.timer, at)
	}
}

// finish finishes this peer's closings, and after finisherGrace those of other peers.
func (c *closer) finish() {
	for _, pool := range c.p.view.Closings() {
		_, mine := c.mine[pool.ID]
		if !mine && c.p.now.Sub(pool.ConfigSeen) < finisherGrace {
			continue
		}
		ps := c.p.pools.byID[pool.ID]
		if ps != nil && (ps.config != nil || len(ps.queue) > 0) {
			continue // a borrow is deciding about the pool
		}
		ps = c.p.pools.of(pool.ID)
		if c.mustRestore(pool) {
			ps.restore(pool)
			continue
		}
		delete(c.mine, pool.ID)
		ps.finishClosing(pool)
	}
}

// mustRestore reports whether a pool that is being closed is in use, or is a registered
// pool that this peer would not have begun to close. The peer that began may have a view
// that is behind, may have counted from an earlier start, or may have another PoolIdle.
func (c *closer) mustRestore(pool *rules.Pool) bool {
	most := c.p.cfg.PoolIdle
	return pool.InUseOrWaited() || !pool.Terms().Named() && (most == 0 || c.p.now.Sub(pool.LastUse()) < most)
}

// begin begins to close idle pools. Of the live peers, the one with the highest rank for
// the pool closes it; the others do so only after closerGrace.
func (c *closer) begin(i *idlers) {
	for n := len(c.p.view.Closings()); n < maxClosings && i.due(c.p.now); n++ {
		pool, _ := i.First()
		since := pool.LastUse()
		if !c.ranksHighest(pool.ID) && c.p.now.Sub(since) < i.time+closerGrace {
			i.Defer(pool, since.Add(closerGrace))
			if i.Len() > i.most {
				return
			}
			continue
		}
		if c.p.pools.byID[pool.ID] == nil {
			c.p.pools.of(pool.ID).beginClosing(pool)
		}
		i.Defer(pool, c.p.now.Add(min(0, idleTime-i.time))) // tried again after idleTime at the latest
	}
}

// ranksHighest reports whether this peer has the highest rank for a pool.
func (c *closer) ranksHighest(pool entry.Hash) bool {
	mine := rank(pool, c.p.self.id)
	for s := range c.p.view.Peers {
		if s.ID != c.p.self.id && rank(pool, s.ID) >= mine {
			return false
		}
	}
	return true
}

// rank returns a peer's rank for a pool: a hash of both, which spreads the pools over
// the peers.
func rank(pool, peer entry.Hash) uint64 {
	h := fnv.New64a()
	for i := range pool {
		h.Write([]byte{pool[i], peer[i]})
	}
	return h.Sum64()
}
