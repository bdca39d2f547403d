package peer

import (
	"cmp"

	"github.com/kvslots/kvslots/kvslots/internal/entry"
	"github.com/kvslots/kvslots/kvslots/internal/rules"
)

// limits returns the caps on names that the borrow may reach: those of limitsOfName, and that of
// its client session.
func (b *borrow) limits(pool *rules.Pool) []limit {
	if !b.named() || len(b.callers) == 0 {
		return nil
	}
	session, origin := b.holders()
	limits := b.p.limitsOfName(pool, origin)
	if v := b.p.view; !session.IsZero() && !v.Uses(session, pool) {
		limits = append(limits, limit{quota{ofNames, session}, b.p.cfg.MaxLocksPerSession, v.NamesOf(session), ErrMaxLocksPerSession})
	}
	return limits
}

// limitsOfName returns the caps that a use of a name by an origin may reach: on the names in use, and
// on those that the origin uses.
func (p *pools) limitsOfName(pool *rules.Pool, origin entry.Hash) (limits []limit) {
	v := p.view
	if pool == nil || !pool.InUseOrWaited() {
		limits = append(limits, limit{quota{of: ofNames}, p.cfg.MaxLocks, v.InNames.Pools, ErrMaxLocks})
	}
	if !origin.IsZero() && !v.Uses(origin, pool) {
		limits = append(limits, limit{quota{ofNames, origin}, p.cfg.MaxLocksPerOrigin, v.NamesOf(origin), ErrMaxLocksPerOrigin})
	}
	return limits
}

// charge counts a claim or a ticket of the borrow for the caps that it may reach.
func (b *borrow) charge(w *write) { w.charge(b.limits(b.p.view.Pool(b.pool.id))) }

// waiter returns the origin for which the borrow's place counts.
func (b *borrow) waiter() entry.Hash {
	_, origin := b.holders()
	return cmp.Or(b.from, origin)
}

// holders returns the session and the origin of a borrow; either may be zero.
func (b *borrow) holders() (session, origin entry.Hash) {
	if s := b.p.view.Session(b.session); s != nil {
		return b.session, s.Value.Origin
	}
	return b.session, b.origin
}
