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
	if v := b.p.view(); !session.IsZero() && !v.Uses(session, pool) {
		limits = append(limits, capOf(ofNames, session, b.p.settings().MaxLocksPerSession, v.NamesOf(session), ErrMaxLocksPerSession))
	}
	return limits
}

func (b *borrow) charge(w *write) { w.charge(b.limits(b.p.view().Pool(b.pool.id))) }

// waiter returns the origin for which the borrow's place counts.
func (b *borrow) waiter() entry.Hash {
	_, origin := b.holders()
	return cmp.Or(b.from, origin)
}

// holders returns the session and the origin of a borrow; either may be zero.
func (b *borrow) holders() (session, origin entry.Hash) {
	if s := b.p.view().Session(b.session); s != nil {
		return b.session, s.Value.Origin
	}
	return b.session, b.origin
}
