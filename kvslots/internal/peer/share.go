package peer

import (
	"cmp"

	"github.com/kvslots/kvslots/kvslots/internal/entry"
	"github.com/kvslots/kvslots/kvslots/internal/rules"
)

// shareReached returns which cap on names forbids the borrow: see nameReached, or that of its client session.
func (b *borrow) shareReached(pool *rules.Pool) error {
	if !b.named() || len(b.callers) == 0 {
		return nil
	}
	session, origin := b.holders()
	err, v := b.p.nameReached(pool, origin), b.p.view()
	if err == nil && !session.IsZero() && !v.Uses(session, pool) {
		err = reached(v.NamesOf(session), b.p.settings().MaxLocksPerSession, ErrMaxLocksPerSession)
	}
	return err
}

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
