package peer

import (
	"github.com/kvslots/kvslots/kvslots/internal/entry"
	"github.com/kvslots/kvslots/kvslots/internal/rules"
)

// A lock without a session is released by its owner, whose name the slot contains. The
// slot's purge contains a hash of the name, so that every peer knows for a while that this
// owner has released the lock.

func (p *leases) releaseOwned(c *call, r ReleaseOwned) {
	p.whenOwnerKnown(c, r.Pool, func(s *rules.Slot) {
		switch owns := s != nil && (r.Force || s.Value.Owner == r.Owner); {
		case owns:
			p.purgeOwned(c, r, s)
		case !r.Force && p.view().Pool(r.Pool).ReleasedBy(ownerHash(r.Owner), p.now()):
			c.answer(Answer{Err: ErrAlreadyReleased})
		case s == nil:
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

// whenOwnerKnown calls do with the slot of a lock's lease, or nil, when the view is live
// and as new as now, and the claim cannot be withdrawn.
func (p *leases) whenOwnerKnown(c *call, id entry.Hash, do func(*rules.Slot)) {
	p.whenKnown(c, id, func(pool *rules.Pool) {
		s := pool.Slot(0)
		if s != nil && !s.Live() {
			s = nil
		}
		do(s)
	})
}

func (p *leases) inspectOwned(c *call, r InspectOwned) {
	p.whenOwnerKnown(c, r.Pool, func(s *rules.Slot) {
		if s == nil {
			c.answer(Answer{Err: ErrNotHeld})
			return
		}
		c.answer(Answer{Owned: &OwnedState{
			Owner: s.Value.Owner, Fence: s.Fence, Age: max(0, p.now().Sub(s.Granted)), EndsIn: max(0, s.Ends.Sub(p.now())),
		}})
	})
}
