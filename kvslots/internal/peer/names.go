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
	coming int // names that will be in use when the view shows this peer's claims
	timer  timer
	set    bool
	mine   map[entry.Hash]struct{} // closings that this peer began
}

// configWrite is a write of a named pool's configuration.
type configWrite struct{ generation uint64 }

// writeConfig writes the configuration of a named pool. One is under way at a
// time; when it is answered, and the view has reached it, what waits in the pool
// is looked at again. An unanswered one is never undone: what turns up later is a
// name that is not used, or a closing that any peer finishes.
func (p *Peer) writeConfig(ps *poolState, value entry.ConfigValue, purge bool) {
	key := entry.Key{Kind: entry.Config, Pool: ps.id}
	revision, _ := p.world.Stands(key)
	m := entry.NewMessage(key, value, revision, 0)
	if purge {
		// The configuration has no TTL to outlive. If it comes back, the name is not used.
		m = entry.NewPurge(key, revision, rules.MarkerTTL)
	}
	c := &configWrite{generation: value.Generation}
	ps.config = c
	end := func() {
		if ps.config == c {
			ps.config = nil
			p.mark(ps)
		}
	}
	p.send(m, func(a Ack) {
		switch a.Outcome {
		case Written:
			p.whenReached(a.Revision, end)
		case Conflict:
			p.whenReached(a.Revision, func() {
				if stands, _ := p.world.Stands(key); stands == revision {
					if a.Revision == 0 {
						p.world.Absent(key)
					}
					p.pause(ps, failurePause)
				}
				end()
			})
		default:
			end()
		}
	})
}

// open opens the name that a borrow came for, and claims slot 0 in the same round
// trip. It returns false when that has to wait.
func (p *Peer) open(b *borrow, pool *rules.Pool) bool {
	ps := b.pool
	if ps.config != nil {
		return false
	}
	if pool.Registered() { // it is being closed
		if !p.world.Exact() {
			p.wantExactFor(ps)
			return false
		}
		if pool.InUseOrWaited() {
			p.restore(ps, pool)
			return false
		}
	}
	if p.overLocks(ps) {
		p.finish(b, Answer{Err: ErrMaxLocks})
		return true
	}
	stood := uint64(0)
	if s := pool.Slot(0); s != nil {
		if s.Taken {
			p.sweep(ps, s)
			return false
		}
		stood = s.Revision
	}
	generation := p.randomNumber()
	p.writeConfig(ps, entry.ConfigValue{Count: b.terms.Limit, Generation: generation, Terms: b.terms}, false)
	p.sendClaim(b, 0, stood, generation)
	return true
}

// overLocks reports whether the cap on names in use forbids to use another.
func (p *Peer) overLocks(ps *poolState) bool {
	most := p.cfg.MaxLocks
	return most > 0 && !ps.coming && p.world.Named()+p.names.coming >= most
}

// noteComing keeps account of the names that are not in use as far as the view
// shows, while this peer claims in them.
func (p *Peer) noteComing(ps *poolState) {
	coming := ps.named && len(ps.flight.Claims) > 0 && p.pools[ps.id] == ps
	if coming {
		pool := p.world.Pool(ps.id)
		coming = pool == nil || !pool.InUseOrWaited()
	}
	if coming == ps.coming {
		return
	}
	if ps.coming = coming; coming {
		p.names.coming++
	} else {
		p.names.coming--
	}
}

// reviewTerms decides about a borrow whose name is open under other terms, in an
// exact view as new as the borrow. A name that is not used is closed for it, once.
func (p *Peer) reviewTerms(b *borrow, pool *rules.Pool) {
	ps := b.pool
	switch {
	case ps.config != nil:
	case pool.InDoubt(p.now) && p.now < b.refuseBy:
		p.markLater(ps)
	case pool.InUseOrWaited() && pool.Count() == 0:
		p.restore(ps, pool)
	case pool.InUseOrWaited():
		p.finish(b, Answer{Err: ErrLimitMismatch})
	case pool.Count() == 0:
		b.closed = true
		p.reopen(b, pool)
	case b.closed:
		p.finish(b, Answer{Err: ErrLimitMismatch})
	default:
		b.closed = true
		p.beginClosing(ps, pool)
	}
}

// reopen writes a borrow's terms over a closing.
func (p *Peer) reopen(b *borrow, pool *rules.Pool) {
	if !p.mayChoose(b.pool) || p.self.revision == 0 {
		p.markLater(b.pool)
		return
	}
	p.open(b, pool)
	if b.phase == refusing {
		p.markLater(b.pool)
	}
}

// beginClosing sets the count of a name that is not used to 0.
func (p *Peer) beginClosing(ps *poolState, pool *rules.Pool) {
	value := pool.Config()
	value.Count = 0
	if p.names.mine == nil {
		p.names.mine = map[entry.Hash]struct{}{}
	}
	p.names.mine[ps.id] = struct{}{}
	p.writeConfig(ps, value, false)
}

// restore sets the count of a name that is used after all to what it was.
func (p *Peer) restore(ps *poolState, pool *rules.Pool) {
	if ps.config != nil {
		return
	}
	value := pool.Config()
	value.Count = value.Limit
	delete(p.names.mine, ps.id)
	p.writeConfig(ps, value, false)
}

// keepNames closes the names that are not used any more, and finishes closings.
// It is done after everything that a caller waits for.
func (p *Peer) keepNames() {
	p.names.set = false
	if p.watch.mode != live || p.closing || p.self.revision == 0 {
		return
	}
	if p.world.Exact() {
		p.finishClosings()
		p.closeIdle()
	} else if len(p.world.Closings()) > 0 || p.idleDue() {
		p.whenExact(func() {})
	}
	p.planNames()
}

// planNames sets the time when keepNames is to be called.
func (p *Peer) planNames() {
	if p.names.set || p.watch.mode != live {
		return
	}
	var at Instant
	switch pool, since := p.world.Idlest(); {
	case len(p.world.Closings()) > 0, p.world.IdleNames() > maxIdleNames:
		at = p.now.Add(finisherGrace / 4)
	case pool != nil:
		at = max(since.Add(idleTime), p.now.Add(finisherGrace))
	default:
		return
	}
	p.names.set = true
	p.names.timer.fire = p.keepNames
	p.timers.start(&p.names.timer, at)
}

func (p *Peer) idleDue() bool {
	pool, since := p.world.Idlest()
	return pool != nil && (p.now.Sub(since) >= idleTime || p.world.IdleNames() > maxIdleNames)
}

// finishClosings finishes the closings that this peer began, and those whose peer
// has not.
func (p *Peer) finishClosings() {
	for _, pool := range p.world.Closings() {
		_, mine := p.names.mine[pool.ID]
		if !mine && p.now.Sub(pool.ConfigSeen()) < finisherGrace {
			continue
		}
		ps := p.pools[pool.ID]
		if ps != nil && (ps.config != nil || len(ps.queue)+len(ps.refusing) > 0) {
			continue // a borrow is at it
		}
		ps = p.pool(pool.ID)
		if pool.InUseOrWaited() {
			p.restore(ps, pool)
			continue
		}
		delete(p.names.mine, pool.ID)
		p.writeConfig(ps, entry.ConfigValue{}, true)
	}
}

// closeIdle begins to close names that are not used. One peer does: of those that
// are alive, the one with the highest hash of pool and presence; the others only if
// that takes long.
func (p *Peer) closeIdle() {
	for n := len(p.world.Closings()); n < maxClosings && p.idleDue(); n++ {
		pool, _ := p.world.Idlest()
		since, _ := pool.IdleSince()
		if !p.closes(pool.ID) && p.now.Sub(since) < idleTime+closerGrace {
			p.world.Defer(pool, since.Add(closerGrace))
			if p.world.IdleNames() > maxIdleNames {
				return
			}
			continue
		}
		if ps := p.pools[pool.ID]; ps != nil {
			p.world.Defer(pool, p.now)
			continue
		}
		p.beginClosing(p.pool(pool.ID), pool)
		p.world.Defer(pool, p.now)
	}
}

// closes reports whether it is for this peer to close a name.
func (p *Peer) closes(pool entry.Hash) bool {
	mine := rank(pool, p.self.id)
	first := true
	p.world.Peers(func(s *rules.Session) bool {
		first = s.ID == p.self.id || rank(pool, s.ID) < mine
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
