package peer

import (
	"github.com/kvslots/kvslots/kvslots/internal/entry"
	"github.com/kvslots/kvslots/kvslots/internal/rules"
)

// Named pools are opened by their first borrow: it writes the configuration, with a
// new random generation, and sends the claim of slot 0 right behind. If another
// configuration is written first, the claim is void, since no pool has its generation.
// A borrow under other terms first closes the name, if that is idle.

// open opens a borrow's name, and claims slot 0 in the same round trip. If the name cannot
// be opened yet, the borrow keeps its phase. The caller has checked the cap on names: see
// obstacle.
func (b *borrow) open(pool *rules.Pool) {
	ps, s := b.pool, pool.Slot(0)
	switch {
	case ps.config != nil:
	case pool.Exists() && !b.p.view.Exact(): // it is being closed
		ps.wantExact()
	case pool.Exists() && pool.InUseOrWaited():
		ps.restore(pool)
	case s != nil && s.Taken:
		ps.sweep(s)
	default:
		generation := b.p.randomNumber()
		ps.writeConfig(entry.ConfigValue{Count: b.terms.Limit, Generation: generation, Terms: b.terms}, 0)
		b.sendClaim(s, 0, generation)
	}
}

// overLocks reports whether the cap on names in use forbids another one.
func (ps *poolState) overLocks() bool {
	return !ps.opening && ps.p.view.NamesReach(ps.p.cfg.MaxLocks, ps.p.opening)
}

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
		ps.p.opening++
	} else {
		ps.p.opening--
	}
}

// reviewTerms decides about a borrow whose name is open under other terms, in an
// exact view as new as the borrow. It closes an idle name once: it tries again only
// while the configuration is unchanged, since the closing may not have been written.
func (b *borrow) reviewTerms(pool *rules.Pool) {
	ps := b.pool
	latest, _ := b.p.view.Latest(configKey(ps.id))
	switch {
	case ps.config != nil:
	case pool.InDoubt(b.p.now) && b.p.now < b.refuseBy:
		ps.markLater()
	case pool.InUseOrWaited() && pool.Closing():
		ps.restore(pool)
	case pool.InUseOrWaited(), !pool.Closing() && b.closedAt != 0 && b.closedAt != latest:
		b.finish(Answer{Err: ErrLimitMismatch})
	case !ps.mayChoose() || b.p.self.revision == 0:
		ps.markLater()
	case !pool.Closing():
		b.closedAt = latest
		ps.beginClosing(pool)
	default:
		b.closedAt = latest
		if b.open(pool); b.phase == refusing {
			ps.markLater()
		}
	}
}
