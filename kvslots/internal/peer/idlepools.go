package peer

import (
	"math"
	"time"

	"github.com/kvslots/kvslots/kvslots/internal/entry"
	"github.com/kvslots/kvslots/kvslots/internal/rules"
)

// Peers close an idle pool in two steps. First a peer writes into the configuration that
// the pool is being closed: that ends no lease, but allows no new one. Then a peer whose
// live view has reached that revision restores the pool if a slot is live or a ticket
// stands. Otherwise it purges the configuration, or writes other terms of a named pool.
// The view shows every claim before the closing, and every claim after it is void: so "idle"
// stays true until the next configuration, and all peers that write one expect the same
// revision.

const (
	maxIdleNames = 1000        // beyond which it is closed sooner
	closerDelay  = time.Second // up to which each peer puts off what any peer may do
	maxClosings  = 32          // closings under way
)

// idleCloser closes idle pools. Any peer does, each after a random delay: all of them write over one
// revision, so one of them succeeds.
type idleCloser struct {
	n     *names
	timer timer
}

// writeConfig writes the configuration of a pool, or purges it, and advances the pool when the
// outcome is known. A write with unknown outcome is not undone: if it takes effect later, it leaves
// an idle name, or a closing that any peer finishes.
func (n *names) writeConfig(m entry.Message, done func()) {
	n.put(m, func(w *write) {
		ps := n.of(m.Key.Pool)
		switch {
		case w.written():
			done()
		case !w.learnt():
			ps.pause(failurePause)
		}
		ps.mark()
	})
}

// setsConfig reports whether this peer is writing the configuration of a pool.
func (p *pools) setsConfig(id entry.Hash) bool { return p.isWriting(rules.ConfigKey(id)) }

// restore ends a closing: slots may be taken again.
func (n *names) restore(pool *rules.Pool) {
	if !n.setsConfig(pool.ID) {
		n.setClosing(pool, false)
	}
}

func (n *names) setClosing(pool *rules.Pool, closing bool) {
	value := pool.Config
	value.Closing, value.By = closing, ""
	n.writeConfig(n.config(pool.ID, value), func() {})
}

func (n *names) finishClosing(pool *rules.Pool) {
	registered := !pool.Terms().Named()
	n.writeConfig(n.purgeConfig(pool.ID), func() {
		if registered {
			n.count().IdlePools++
		}
	})
}

// idlers are the idle pools of one kind, and how long they may stay.
type idlers struct {
	*rules.IdlePools
	time time.Duration // after which they are closed
	most int           // beyond which they are closed sooner
}

func (c *idleCloser) idlers() [2]idlers {
	v := c.n.view()
	return [2]idlers{{&v.IdleNames, idleTime, maxIdleNames}, {&v.Idle, c.n.settings().PoolIdle, math.MaxInt}}
}

func (i *idlers) due(now Instant) bool {
	pool, since := i.First()
	return pool != nil && (now.Sub(since) >= i.time || i.Len() > i.most)
}

func (c *idleCloser) run() {
	if c.n.isStopping() || !c.n.isPresent() {
		return
	}
	c.finish()
	for _, i := range c.idlers() {
		c.closeIdle(&i)
	}
	c.plan()
}

func (n *names) plan() { n.closer.plan() }

func (c *idleCloser) plan() {
	const never = Instant(math.MaxInt64)
	from := never
	if len(c.n.view().Closings()) > 0 {
		from = c.n.now()
	}
	for _, i := range c.idlers() {
		if pool, since := i.First(); i.Len() > i.most {
			from = c.n.now()
		} else if pool != nil {
			from = min(from, max(since.Add(i.time), c.n.now()))
		}
	}
	if from != never && (!c.timer.isSet() || from.Add(closerDelay) < c.timer.due()) {
		c.n.arm(&c.timer, from.Add(c.n.randomPause(closerDelay)), func() { c.n.whenLive(c.run) })
	}
}

func (c *idleCloser) finish() {
	for _, pool := range c.n.view().Closings() {
		ps := c.n.byID[pool.ID]
		switch {
		case c.n.setsConfig(pool.ID), ps != nil && len(ps.queue) > 0: // a borrow is deciding about the pool
		case c.mustRestore(pool):
			c.n.restore(pool)
		default:
			c.n.finishClosing(pool)
		}
	}
}

// mustRestore reports whether a pool that is being closed is in use, or is a registered
// pool that this peer would not have begun to close. The peer that began may have a view
// that is behind, may have counted from an earlier start, or may have another PoolIdle.
func (c *idleCloser) mustRestore(pool *rules.Pool) bool {
	most := c.n.settings().PoolIdle
	return pool.InUseOrWaited() || !pool.Terms().Named() && (most == 0 || c.n.now().Sub(pool.LastUse()) < most)
}

func (c *idleCloser) closeIdle(i *idlers) {
	for n := len(c.n.view().Closings()); n < maxClosings && i.due(c.n.now()); n++ {
		pool, _ := i.First()
		if c.n.byID[pool.ID] == nil && !c.n.setsConfig(pool.ID) {
			c.n.setClosing(pool, true)
		}
		i.Defer(pool, c.n.now().Add(min(0, idleTime-i.time))) // tried again after idleTime at the latest
	}
}
