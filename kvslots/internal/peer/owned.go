package peer

import (
	"github.com/kvslots/kvslots/kvslots/internal/entry"
	"github.com/kvslots/kvslots/kvslots/internal/rules"
)

// A lock that no session holds is released by its owner, whose name stands in the
// slot as it is. The purge of its slot names the owner as well, so that every peer
// can tell for a while that this owner has released it.

func (r ReleaseOwned) begin(p *Peer, c *call) {
	p.ask(c, func() { r.releaseOwned(c) })
}

// releaseOwned judges in an exact view as new as the call.
func (r ReleaseOwned) releaseOwned(c *call) {
	pool := c.p.view.Pool(r.Pool)
	s, certain := c.p.ownedSlot(pool)
	owns := s != nil && (r.Force || s.Value.Owner == r.Owner)
	switch {
	case !certain:
		c.againSoon(func() { r.releaseOwned(c) })
		return
	case !owns && c.unsure: // it may have been this call that released it
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
		c.p.ask(c, func() { r.releaseOwned(c) })
	})
}

// ownedSlot is the slot of a lock's lease, or nil. While its claim may yet be
// withdrawn that is not certain.
func (p *Peer) ownedSlot(pool *rules.Pool) (s *rules.Slot, certain bool) {
	s = pool.Slot(0)
	if s == nil || !s.Live() {
		return nil, true
	}
	return s, p.view.Exact() && !s.InDoubt(p.now)
}

// againSoon does something again for a call in an exact view, after a pause.
func (c *call) againSoon(do func()) {
	c.after(inFlightPause, func() { c.p.whenExact(do) })
}

func (r InspectOwned) begin(p *Peer, c *call) {
	p.ask(c, func() { c.inspectOwned(r.Pool) })
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

// ownerMark stands for an owner in a header, where not every text can stand; "" for
// none.
func ownerMark(owner string) string {
	if owner == "" {
		return ""
	}
	return entry.HashOf("owner", owner).String()
}
