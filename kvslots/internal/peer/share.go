package peer

import "github.com/kvslots/kvslots/kvslots/internal/entry"

// A client session has a share of the cap on locks and semaphores, and so have the clients of
// one origin: a number of names that they hold or wait for.

// overShare returns which cap forbids a borrow to use its name, or nil. If underWay is set, it
// counts the names in which this peer is about to have a first slot or ticket for the
// session or the origin.
func (b *borrow) overShare(underWay bool) error {
	if !b.named() || b.call == nil {
		return nil
	}
	session, origin := b.holders()
	switch cfg := &b.p.cfg; {
	case b.reaches(cfg.MaxLocksPerSession, session, underWay):
		return ErrMaxLocksPerSession
	case b.reaches(cfg.MaxLocksPerOrigin, origin, underWay):
		return ErrMaxLocksPerOrigin
	}
	return nil
}

func (b *borrow) reaches(most int, holder entry.Hash, underWay bool) bool {
	if most == 0 || holder.IsZero() || b.isUsedBy(holder) {
		return false
	}
	names := b.p.view.NamesOf(holder)
	if underWay {
		names += b.p.adding[holder]
	}
	return names >= most
}

// isUsedBy reports whether a session or an origin uses the borrow's name.
func (b *borrow) isUsedBy(holder entry.Hash) bool {
	return b.p.view.Uses(holder, b.p.view.Pool(b.pool.id))
}

func isShare(err error) bool { return err == ErrMaxLocksPerSession || err == ErrMaxLocksPerOrigin }

// holders returns the session and the origin of a borrow; either may be zero.
func (b *borrow) holders() (session, origin entry.Hash) {
	if s := b.p.view.Session(b.session); s != nil {
		return b.session, s.Value.Origin
	}
	return b.session, b.origin
}

// noteAdding keeps count, for each session and origin, of the borrows whose slot or ticket is
// sent and will be the first one in their name. It is called after each change of phase.
func (b *borrow) noteAdding() {
	for _, holder := range b.adding {
		if holder.IsZero() {
			continue
		}
		if b.p.adding[holder]--; b.p.adding[holder] == 0 {
			delete(b.p.adding, holder)
		}
	}
	b.adding = [2]entry.Hash{}
	if !b.named() || b.phase != joining && b.phase != claiming {
		return
	}
	session, origin := b.holders()
	for i, holder := range [2]entry.Hash{session, origin} {
		if !holder.IsZero() && !b.isUsedBy(holder) {
			b.adding[i] = holder
			put(&b.p.adding, holder, b.p.adding[holder]+1)
		}
	}
}
