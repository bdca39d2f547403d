package peer

import (
	"github.com/kvslots/kvslots/kvslots/internal/entry"
	"github.com/kvslots/kvslots/kvslots/internal/rules"
)

// Named pools are opened by their first borrow: it writes the configuration, with a
// new random generation, and sends the claim of slot 0 right behind. If another
// configuration is written first, the claim is void, since no pool has its generation.
// A borrow under other terms first closes the name, if that is idle.

type names struct {
	*pools
	closer timer // calls closePools
}

func newNames(l *leases) *names {
	n := &names{pools: &pools{leases: l, byID: map[entry.Hash]*poolState{}}}
	n.pools.names = n
	return n
}

// open opens a borrow's name, and claims slot 0 in the same round trip. If the name cannot
// be opened yet, the borrow keeps its phase. The caller has checked the cap on names: see
// obstacle.
func (n *names) open(b *borrow, pool *rules.Pool) {
	ps, s := b.pool, pool.Slot(0)
	switch {
	case n.setsConfig(ps.id):
		ps.markLater()
	case pool.Exists() && pool.Busy():
		n.restore(pool)
	case s != nil && s.Taken:
		ps.sweep(s)
	default:
		value := entry.ConfigValue{Count: b.terms.Limit, Generation: n.randomNumber(), Terms: b.terms}
		_, value.Origin = b.holders()
		if paused, is := pool.OutOfService(); is {
			value = value.WithOut(paused, pool.Config.OutOrigin)
		}
		n.writeConfig(n.config(ps.id, value))
		if !value.Paused() {
			b.sendClaim(0, value.Generation)
		}
	}
}
