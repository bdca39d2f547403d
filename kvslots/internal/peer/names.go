package peer

import (
	"time"

	"github.com/kvslots/kvslots/kvslots/internal/entry"
	"github.com/kvslots/kvslots/kvslots/internal/rules"
)

// A named pool registers itself: its first user writes the configuration, with a
// new random generation, and sends the claim for slot 0 right behind it. If the
// configuration loses, the claim is void, for its generation is in force nowhere.
//
// A name that is not used any more is closed in two steps. First its count is set
// to 0, which ends no lease and lends nothing. In an exact view of that revision
// a slot that is live, or a ticket that stands, has the count restored; else the
// configuration is purged, or written with other terms. A claim below the closing
// is seen, and one above it is void: so "empty" stays true until the configuration
// changes, and all who change it meet on one revision.

const (
	idleTime      = time.Minute      // after which an unused name is closed
	maxIdleNames  = 1000             // beyond which it is closed sooner
	closerGrace   = 10 * time.Second // until other peers close a name
	finisherGrace = time.Second      // until other peers finish a closing
	maxClosings   = 32               // closings under way
)

// names is what a peer does about names that are not used any more.
type names struct {
	p      *Peer
	coming int // names that will be in use when the view shows this peer's claims
	timer  timer
	mine   map[entry.Hash]struct{} // closings that this peer began
}

// writeConfig writes the configuration of a named pool. One is under way at a
// time; when it is answered, and the view has reached it, what waits in the pool
// is looked at again. An unanswered one is never undone: what turns up later is a
// name that is not used, or a closing that any peer finishes.
func (ps *poolState) writeConfig(value entry.ConfigValue, purge bool) {
	key := entry.Key{Kind: entry.Config, Pool: ps.id}
	revision, _ := ps.p.view.Stands(key)
	value.Before = ps.p.view.Pool(ps.id).Before(value.Generation)
	m := entry.NewMessage(key, value, revision, 0)
	if purge {
		// The configuration has no TTL to outlive: if it comes back, the name is not
		// used. But the marker must not go while a view is behind, by whatever clock.
		m = entry.NewPurge(key, revision, rules.Guard+rules.MarkerTTL)
	}
	w := ps.p.put(m, nil)
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

// open opens the name that a borrow came for, and claims slot 0 in the same round
// trip. It returns false when that has to wait.
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

// overLocks reports whether the cap on names in use forbids to use another.
func (ps *poolState) overLocks() bool {
	most := ps.p.cfg.MaxLocks
	return most > 0 && !ps.coming && ps.p.view.Named+ps.p.names.coming >= most
}

// noteComing keeps account of the names that are not in use as far as the view
// shows, while this peer claims in them.
func (ps *poolState) noteComing() {
	coming := ps.named && len(ps.flight.Claims) > 0 && ps.p.pools[ps.id] == ps
	if coming {
		pool := ps.p.view.Pool(ps.id)
		coming = pool == nil || !pool.InUseOrWaited()
	}
	if coming == ps.coming {
		return
	}
	if ps.coming = coming; coming {
		ps.p.names.coming++
	} else {
		ps.p.names.coming--
	}
}

// reviewTerms decides about a borrow whose name is open under other terms, in an
// exact view as new as the borrow. A name that is not used is closed for it, once: that
// is tried again only while the configuration stands as it did, for the closing may
// have had no answer.
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

// beginClosing sets the count of a name that is not used to 0.
func (ps *poolState) beginClosing(pool *rules.Pool) {
	put(&ps.p.names.mine, ps.id, struct{}{})
	ps.setCount(pool, 0)
}

// restore sets the count of a name that is used after all to what it was.
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

// keep closes the names that are not used any more, and finishes closings.
// It is done after everything that a caller waits for.
func (ns *names) keep() {
	if ns.p.watch.mode != live || ns.p.closing || ns.p.self.revision == 0 {
		return
	}
	if ns.p.view.Exact() {
		ns.finishClosings()
		ns.closeIdle()
	} else if len(ns.p.view.Closings()) > 0 || ns.idleDue() {
		ns.p.whenExact(func() {})
	}
	ns.plan()
}

// plan sets the time when keepNames is to be called.
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

// finishClosings finishes the closings that this peer began, and those whose peer
// has not.
func (ns *names) finishClosings() {
	for _, pool := range ns.p.view.Closings() {
		_, mine := ns.mine[pool.ID]
		if !mine && ns.p.now.Sub(pool.ConfigSeen) < finisherGrace {
			continue
		}
		ps := ns.p.pools[pool.ID]
		if ps != nil && (ps.config != nil || len(ps.queue)+len(ps.refusing) > 0) {
			continue // a borrow is at it
		}
		ps = ns.p.pool(pool.ID)
		if pool.InUseOrWaited() {
			ps.restore(pool)
			continue
		}
		delete(ns.mine, pool.ID)
		ps.writeConfig(entry.ConfigValue{}, true)
	}
}

// closeIdle begins to close names that are not used. One peer does: of those that
// are alive, the one with the highest hash of pool and presence; the others only if
// that takes long.
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
		if ns.p.pools[pool.ID] == nil {
			ns.p.pool(pool.ID).beginClosing(pool)
		}
		ns.p.view.Defer(pool, ns.p.now)
	}
}

// closes reports whether it is for this peer to close a name.
func (ns *names) closes(pool entry.Hash) bool {
	mine := rank(pool, ns.p.self.id)
	first := true
	ns.p.view.Peers(func(s *rules.Session) bool {
		first = s.ID == ns.p.self.id || rank(pool, s.ID) < mine
		return first
	})
	return first
}

// rank spreads the names over the peers.
func rank(pool, peer entry.Hash) uint64 {
	x := uint64(14695981039346656037)
	for i := range pool {
		x = (x ^ uint64(pool[i])) * 1099511628211
		x = (x ^ uint64(peer[i])) * 1099511628211
	}
	return x
}
