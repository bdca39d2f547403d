package peer

import (
	"github.com/kvslots/kvslots/kvslots/internal/entry"
	"github.com/kvslots/kvslots/kvslots/internal/rules"
)

// limits returns the caps on names that the borrow may reach: on those in use, and on those in
// which its client session, or the clients of its origin, have slots or tickets.
func (b *borrow) limits(pool *rules.Pool) []limit {
	if !b.named() || len(b.callers) == 0 {
		return nil
	}
	cfg, v := &b.p.cfg, b.p.view
	var limits []limit
	if pool == nil || !pool.InUseOrWaited() {
		limits = append(limits, limit{quota{of: ofNames}, cfg.MaxLocks, v.InNames.Pools, ErrMaxLocks})
	}
	session, origin := b.holders()
	if !session.IsZero() && !v.Uses(session, pool) {
		limits = append(limits, limit{quota{ofNames, session}, cfg.MaxLocksPerSession, v.NamesOf(session), ErrMaxLocksPerSession})
	}
	if !origin.IsZero() && !v.Uses(origin, pool) {
		limits = append(limits, limit{quota{ofNames, origin}, cfg.MaxLocksPerOrigin, v.NamesOf(origin), ErrMaxLocksPerOrigin})
	}
	return limits
}

// charge counts a claim or a ticket of the borrow for the caps that it may reach.
func (b *borrow) charge(w *write) {
	for _, l := range b.limits(b.p.view.Pool(b.pool.id)) {
		if l.most > 0 {
			w.charge(l.quota)
		}
	}
}

// holders returns the session and the origin of a borrow; either may be zero.
func (b *borrow) holders() (session, origin entry.Hash) {
	if s := b.p.view.Session(b.session); s != nil {
		return b.session, s.Value.Origin
	}
	return b.session, b.origin
}
