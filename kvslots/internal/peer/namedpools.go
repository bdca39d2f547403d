package peer

import (
	"time"

	"github.com/kvslots/kvslots/kvslots/internal/entry"
	"github.com/kvslots/kvslots/kvslots/internal/rules"
)

// Named pools are opened by their first borrow: it writes the configuration, with a
// new random generation, and sends the claim of slot 0 right behind. If another
// configuration is written first, the claim is void, since no pool has its generation.
//
// Peers close an idle name in two steps. First a peer sets the count to 0: that ends
// no lease, but allows no new one. Then a peer whose exact view has reached that
// revision restores the count if a slot is live or a ticket stands; otherwise it purges
// the configuration, or writes other terms. The view shows every claim before the
// closing, and every claim after it is void: so "idle" stays true until the next
// configuration, and all peers that write one expect the same revision.

const (
	idleTime      = time.Minute      // after which an idle name is closed
	maxIdleNames  = 1000             // beyond which it is closed sooner
	closerGrace   = 10 * time.Second // until other peers close a name
	finisherGrace = time.Second      // until other peers finish a closing
	maxClosings   = 32               // closings under way
)

// names closes the names that are idle.
type names struct {
	p       *Peer
	opening int // names that are not in use in the view, and in which this peer is claiming
	timer   timer
	mine    map[entry.Hash]struct{} // closings that this peer began
}

// writeConfig writes or purges the configuration of a named pool. One such write is
// pending at a time. When its fate is known, the pool is advanced. A write with unknown
// outcome is not undone: if it takes effect later, it leaves an idle name, or a closing
// that any peer finishes.
func (ps *poolState) writeConfig(value entry.ConfigValue, purge bool) {
	key := entry.Key{Kind: entry.Config, Pool: ps.id}
	revision, _ := ps.p.view.Stands(key)
	value.Before = ps.p.view.Pool(ps.id).Before(value.Generation)
	m := entry.NewMessage(key, value, revision, 0)
	if purge {
		// The marker need not outlive the configuration, which has no TTL: if that
		// came back, it would be of an idle name. But the marker must not expire while
		// a view is behind.
		m = entry.NewPurge(key, revision, rules.Guard+rules.MarkerTTL)
	}
	w := ps.p.writes.put(m, nil)
	ps.config = w
	w.told = func(f fate) {
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

// open opens a borrow's name, and claims slot 0 in the same round trip. It returns
// false if the borrow has to wait.
func (b *borrow) open(pool *rules.Pool) bool {
	ps := b.pool
	if ps.config != nil {
		return false
	}
	if pool.Registered() { // it is being closed
		if !b.p.view.Exact() {
			ps.wantExact()
			return false
		}
		if pool.InUseOrWaited() {
			ps.restore(pool)
			return false
		}
	}
	if ps.overLocks() {
		b.finish(Answer{Err: ErrMaxLocks})
		return true
	}
	s := pool.Slot(0)
	if s != nil && s.Taken {
		ps.sweep(s)
		return false
	}
	generation := b.p.randomNumber()
	ps.writeConfig(entry.ConfigValue{Count: b.terms.Limit, Generation: generation, Terms: b.terms}, false)
	return b.sendClaim(s, 0, generation)
}

// overLocks reports whether the cap on names in use forbids another one.
func (ps *poolState) overLocks() bool {
	most := ps.p.cfg.MaxLocks
	return most > 0 && !ps.opening && ps.p.view.Named+ps.p.names.opening >= most
}

// noteOpening updates names.opening for one pool.
func (ps *poolState) noteOpening() {
	opening := ps.named && len(ps.flight.Claims) > 0 && ps.p.pools.byID[ps.id] == ps
	if opening {
		pool := ps.p.view.Pool(ps.id)
		opening = pool == nil || !pool.InUseOrWaited()
	}
	if opening == ps.opening {
		return
	}
	if ps.opening = opening; opening {
		ps.p.names.opening++
	} else {
		ps.p.names.opening--
	}
}

// reviewTerms decides about a borrow whose name is open under other terms, in an
// exact view as new as the borrow. It closes an idle name once: it tries again only
// while the configuration is unchanged, since the closing may have had no answer.
func (b *borrow) reviewTerms(pool *rules.Pool) {
	ps := b.pool
	stands, _ := b.p.view.Stands(configKey(ps.id))
	switch {
	case ps.config != nil:
	case pool.InDoubt(b.p.now) && b.p.now < b.refuseBy:
		ps.markLater()
	case pool.InUseOrWaited() && pool.Count() == 0:
		ps.restore(pool)
	case pool.InUseOrWaited(), pool.Count() > 0 && b.closed != 0 && b.closed != stands:
		b.finish(Answer{Err: ErrLimitMismatch})
	case !ps.mayChoose() || b.p.self.revision == 0:
		ps.markLater()
	case pool.Count() > 0:
		b.closed = stands
		ps.beginClosing(pool)
	default:
		b.closed = stands
		if b.open(pool); b.phase == refusing {
			ps.markLater()
		}
	}
}

// beginClosing sets the count of an idle name to 0.
func (ps *poolState) beginClosing(pool *rules.Pool) {
	put(&ps.p.names.mine, ps.id, struct{}{})
	ps.setCount(pool, 0)
}

// restore ends a closing: it sets the count to the limit again.
func (ps *poolState) restore(pool *rules.Pool) {
	if ps.config == nil {
		delete(ps.p.names.mine, ps.id)
		ps.setCount(pool, pool.Terms().Limit)
	}
}

func (ps *poolState) setCount(pool *rules.Pool, count int) {
	value := pool.Config
	value.Count = count
	ps.writeConfig(value, false)
}

// keep finishes closings and begins to close idle names.
func (ns *names) keep() {
	if ns.p.watch.mode != live || ns.p.closing || ns.p.self.revision == 0 {
		return
	}
	if ns.p.view.Exact() {
		ns.finishClosings()
		ns.closeIdle()
	} else if len(ns.p.view.Closings()) > 0 || ns.idleDue() {
		ns.p.reads.whenExact(func() {})
	}
	ns.plan()
}

// plan sets the timer that calls keep.
func (ns *names) plan() {
	if ns.timer.index != 0 || ns.p.watch.mode != live {
		return
	}
	var at Instant
	switch pool, since := ns.p.view.Idlest(); {
	case len(ns.p.view.Closings()) > 0, ns.p.view.IdleNames() > maxIdleNames:
		at = ns.p.now.Add(finisherGrace / 4)
	case pool != nil:
		at = max(since.Add(idleTime), ns.p.now.Add(finisherGrace))
	default:
		return
	}
	ns.timer.fire = ns.keep
	ns.p.timers.start(&ns.timer, at)
}

func (ns *names) idleDue() bool {
	pool, since := ns.p.view.Idlest()
	return pool != nil && (ns.p.now.Sub(since) >= idleTime || ns.p.view.IdleNames() > maxIdleNames)
}

// finishClosings finishes this peer's closings, and after finisherGrace those of other
// peers.
func (ns *names) finishClosings() {
	for _, pool := range ns.p.view.Closings() {
		_, mine := ns.mine[pool.ID]
		if !mine && ns.p.now.Sub(pool.ConfigSeen) < finisherGrace {
			continue
		}
		ps := ns.p.pools.byID[pool.ID]
		if ps != nil && (ps.config != nil || len(ps.queue)+len(ps.refusing) > 0) {
			continue // a borrow is deciding about the name
		}
		ps = ns.p.pools.of(pool.ID)
		if pool.InUseOrWaited() {
			ps.restore(pool)
			continue
		}
		delete(ns.mine, pool.ID)
		ps.writeConfig(entry.ConfigValue{}, true)
	}
}

// closeIdle begins to close idle names. Of the live peers, the one with the highest
// rank for the name closes it; the others do so only after closerGrace.
func (ns *names) closeIdle() {
	for n := len(ns.p.view.Closings()); n < maxClosings && ns.idleDue(); n++ {
		pool, _ := ns.p.view.Idlest()
		since, _ := pool.IdleSince()
		if !ns.closes(pool.ID) && ns.p.now.Sub(since) < idleTime+closerGrace {
			ns.p.view.Defer(pool, since.Add(closerGrace))
			if ns.p.view.IdleNames() > maxIdleNames {
				return
			}
			continue
		}
		if ns.p.pools.byID[pool.ID] == nil {
			ns.p.pools.of(pool.ID).beginClosing(pool)
		}
		ns.p.view.Defer(pool, ns.p.now)
	}
}

// closes reports whether this peer has the highest rank for a name.
func (ns *names) closes(pool entry.Hash) bool {
	mine := rank(pool, ns.p.self.id)
	first := true
	ns.p.view.Peers(func(s *rules.Session) bool {
		first = s.ID == ns.p.self.id || rank(pool, s.ID) < mine
		return first
	})
	return first
}

// rank returns a peer's rank for a name: a hash of both, which spreads the names over
// the peers.
func rank(pool, peer entry.Hash) uint64 {
	x := uint64(14695981039346656037)
	for i := range pool {
		x = (x ^ uint64(pool[i])) * 1099511628211
		x = (x ^ uint64(peer[i])) * 1099511628211
	}
	return x
}
