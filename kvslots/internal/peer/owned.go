package peer

import (
	"github.com/kvslots/kvslots/kvslots/internal/entry"
	"github.com/kvslots/kvslots/kvslots/internal/rules"
)

// A lock without a session is released by its owner, whose name the slot contains. The
// slot's purge contains a hash of the name, so that every peer knows for a while that this
// owner has released the lock.

func (p *leases) releaseOwned(c *call, r ReleaseOwned) {
	p.whenKnown(c, r.Pool, func(pool *rules.Pool) {
		s := pool.Slot(0)
		held := s != nil && s.Live()
		switch {
		case held && (r.Force || s.Value.Owner == r.Owner):
			p.purgeOwned(c, r, s)
		case !r.Force && pool.ReleasedBy(ownerHash(r.Owner), p.now()):
			c.answer(Answer{Err: ErrAlreadyReleased})
		case !held:
			c.answer(Answer{Err: ErrNotHeld})
		default:
			c.answer(Answer{Err: ErrNotOwner})
		}
	})
}

func (p *leases) purgeOwned(c *call, r ReleaseOwned, s *rules.Slot) {
	again := func() { p.releaseOwned(c, r) }
	if !p.outOfLine(c, s, again) {
		return
	}
	m := p.purgeSlot(s)
	if !r.Force {
		m.Owner = ownerHash(r.Owner)
	}
	ended := p.leased(s, entry.NoCause)
	p.putFor(c, m, func(*write) {
		ended()
		c.answer(Answer{})
	}, again)
}
