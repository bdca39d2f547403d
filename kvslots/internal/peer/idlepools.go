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

// writeConfig writes the configuration of a pool, or purges it, and advances the pool when the
// outcome is known. A write with unknown outcome is not undone: if it takes effect later, it leaves
// an idle name, or a closing that any peer finishes.
func (n *names) writeConfig(m entry.Message) {
	unregisters := m.Marker && !n.view().Pool(m.Key.Pool).Terms().Named()
	n.put(m, func(w *write) {
		ps := n.of(m.Key.Pool)
		switch {
		case w.written() && unregisters:
			n.count().IdlePools++
		case !w.written() && !w.learnt():
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
	n.writeConfig(n.config(pool.ID, value))
}

// idlers are the idle pools of one kind, and how long they may stay.
type idlers struct {
	*rules.IdlePools
	time time.Duration // after which they are closed
	most int           // beyond which they are closed sooner
}

func (n *names) idlers() [2]idlers {
	v := n.view()
	return [2]idlers{{&v.IdleNames, idleTime, maxIdleNames}, {&v.Idle, n.settings().PoolIdle, math.MaxInt}}
}

func (i *idlers) due(now Instant) bool {
	pool, since := i.First()
	return pool != nil && (now.Sub(since) >= i.time || i.Len() > i.most)
}

// closePools finishes closings and begins to close idle pools.
func (n *names) closePools() {
	if n.isStopping() || !n.isPresent() {
		return
	}
	n.finish()
	for _, i := range n.idlers() {
		n.closeIdle(&i)
	}
	n.plan()
}

// plan sets the timer that calls closePools.
func (n *names) plan() {
	const never = Instant(math.MaxInt64)
	from := never
	if len(n.view().Closings()) > 0 {
		from = n.now()
	}
	for _, i := range n.idlers() {
		if pool, since := i.First(); i.Len() > i.most {
			from = n.now()
		} else if pool != nil {
			from = min(from, max(since.Add(i.time), n.now()))
		}
	}
	if from != never && (!n.closer.isSet() || from.Add(closerDelay) < n.closer.due()) {
		n.arm(&n.closer, from.Add(n.randomPause(closerDelay)), func() { n.whenLive(n.closePools) })
	}
}

func (n *names) finish() {
	for _, pool := range n.view().Closings() {
		ps := n.byID[pool.ID]
		switch {
		case n.setsConfig(pool.ID), ps != nil && len(ps.queue) > 0: // a borrow is deciding about the pool
		case n.mustRestore(pool):
			n.restore(pool)
		default:
			n.writeConfig(n.purgeConfig(pool.ID))
		}
	}
}

// mustRestore reports whether a pool that is being closed is in use, or is a registered
// pool that this peer would not have begun to close. The peer that began may have a view
// that is behind, may have counted from an earlier start, or may have another PoolIdle.
func (n *names) mustRestore(pool *rules.Pool) bool {
	most := n.settings().PoolIdle
	return pool.InUseOrWaited() || !pool.Terms().Named() && (most == 0 || n.now().Sub(pool.LastUse()) < most)
}

func (n *names) closeIdle(i *idlers) {
	for under := len(n.view().Closings()); under < maxClosings && i.due(n.now()); under++ {
		pool, _ := i.First()
		if n.byID[pool.ID] == nil && !n.setsConfig(pool.ID) {
			n.setClosing(pool, true)
		}
		i.Defer(pool, n.now().Add(min(0, idleTime-i.time))) // tried again after idleTime at the latest
	}
}
