package peer

import (
	"github.com/kvslots/kvslots/kvslots/internal/entry"
	"github.com/kvslots/kvslots/kvslots/internal/rules"
)

// The owner of a lock without a session releases it. The slot has the owner's name as
// it is. The slot's purge has a hash of the name, so that every peer knows for a while
// that this owner has released the lock.

func (r ReleaseOwned) begin(p *Peer, c *call) {
	p.reads.whenCurrent(c, func() { r.releaseOwned(c) })
}

// releaseOwned decides about the call, in an exact view as new as the call.
func (r ReleaseOwned) releaseOwned(c *call) {
	pool := c.p.view.Pool(r.Pool)
	s, certain := c.p.ownedSlot(pool)
	owns := s != nil && (r.Force || s.Value.Owner == r.Owner)
	switch {
	case !certain:
		c.againSoon(func() { r.releaseOwned(c) })
		return
	case !owns && c.unsure: // an earlier purge of this call may have released it
		c.answer(Answer{Err: ErrUnavailable})
		return
	case !owns && !r.Force && pool.ReleasedBy(ownerMark(r.Owner), c.p.now):
		c.answer(Answer{Err: ErrAlreadyReleased})
		return
	case s == nil:
		c.answer(Answer{Err: ErrNotHeld})
		return
	case !owns:
		c.answer(Answer{Err: ErrNotOwner})
		return
	}
	m := c.p.purge(rules.SlotKey(r.Pool, s.Position), s.Revision)
	m.Ticket = s.Value.Ticket
	if !r.Force {
		m.Owner = ownerMark(r.Owner)
	}
	c.putOnce(m, func(uint64) { c.answer(Answer{Returned: true}) }, func() {
		c.p.reads.whenCurrent(c, func() { r.releaseOwned(c) })
	})
}

// ownedSlot returns the slot of a lock's lease, or nil. certain is false while the
// claim may still be withdrawn.
func (p *Peer) ownedSlot(pool *rules.Pool) (s *rules.Slot, certain bool) {
	s = pool.Slot(0)
	if s == nil || !s.Live() {
		return nil, true
	}
	return s, p.view.Exact() && !s.InDoubt(p.now)
}

// againSoon calls do after a pause, when the view is exact.
func (c *call) againSoon(do func()) {
	c.after(inFlightPause, func() { c.p.reads.whenExact(do) })
}

func (r InspectOwned) begin(p *Peer, c *call) {
	p.reads.whenCurrent(c, func() { c.inspectOwned(r.Pool) })
}

func (c *call) inspectOwned(id entry.Hash) {
	s, certain := c.p.ownedSlot(c.p.view.Pool(id))
	switch {
	case !certain:
		c.againSoon(func() { c.inspectOwned(id) })
	case s == nil:
		c.answer(Answer{Err: ErrNotHeld})
	default:
		c.answer(Answer{Owned: OwnedState{
			Owner: s.Value.Owner, Fence: s.Fence,
			Age: max(0, c.p.now.Sub(s.Granted)), EndsIn: max(0, s.Ends.Sub(c.p.now)),
		}})
	}
}

// ownerMark returns a hash of an owner for a header, which cannot hold every text; ""
// for no owner.
func ownerMark(owner string) string {
	if owner == "" {
		return ""
	}
	return entry.HashOf("owner", owner).String()
}
