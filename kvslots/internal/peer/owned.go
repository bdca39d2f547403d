package peer

import (
	"github.com/kvslots/kvslots/kvslots/internal/entry"
	"github.com/kvslots/kvslots/kvslots/internal/rules"
)

// A lock that no session holds is released by its owner, whose name stands in the
// slot as it is. The purge of its slot names the owner as well, so that every peer
// can tell for a while that this owner has released it.

func (r ReleaseOwned) begin(p *Peer, c *call) {
	p.bound(c, p.now.Add(patience))
	p.ask(c, func() { p.releaseOwned(r, c) })
}

// releaseOwned judges in an exact view as new as the call.
func (p *Peer) releaseOwned(r ReleaseOwned, c *call) {
	pool := p.world.Pool(r.Pool)
	s, certain := p.ownedSlot(pool)
	owns := s != nil && (r.Force || s.Value.Owner == r.Owner)
	switch {
	case !certain:
		p.againSoon(c, func() { p.releaseOwned(r, c) })
		return
	case !owns && c.unsure: // it may have been this call that released it
		p.answer(c, Answer{Err: ErrUnavailable})
		return
	case !owns && !r.Force && pool.ReleasedBy(ownerMark(r.Owner), p.now):
		p.answer(c, Answer{Err: ErrAlreadyReleased})
		return
	case s == nil:
		p.answer(c, Answer{Err: ErrNotHeld})
		return
	case !owns:
		p.answer(c, Answer{Err: ErrNotOwner})
		return
	}
	m := p.purge(rules.SlotKey(r.Pool, s.Position), s.Revision)
	m.Ticket = s.Value.Ticket
	if !r.Force {
		m.Owner = ownerMark(r.Owner)
	}
	p.purgeFor(c, m, func(uint64) { p.answer(c, Answer{Returned: true}) }, func() {
		p.ask(c, func() { p.releaseOwned(r, c) })
	})
}

// ownedSlot is the slot of a lock's lease, or nil. While its claim may yet be
// withdrawn that is not certain.
func (p *Peer) ownedSlot(pool *rules.Pool) (s *rules.Slot, certain bool) {
	s = pool.Slot(0)
	if s == nil || !s.Live() {
		return nil, true
	}
	return s, p.world.Exact() && !s.InDoubt(p.now)
}

// againSoon does something again for a call in an exact view, after a pause.
func (p *Peer) againSoon(c *call, do func()) {
	p.after(inFlightPause, func() {
		if p.calls.open[c.id] == c {
			p.whenExact(do)
		}
	})
}

func (r InspectOwned) begin(p *Peer, c *call) {
	p.bound(c, p.now.Add(patience))
	p.ask(c, func() { p.inspectOwned(r.Pool, c) })
}

func (p *Peer) inspectOwned(id entry.Hash, c *call) {
	s, certain := p.ownedSlot(p.world.Pool(id))
	switch {
	case !certain:
		p.againSoon(c, func() { p.inspectOwned(id, c) })
	case s == nil:
		p.answer(c, Answer{Err: ErrNotHeld})
	default:
		p.answer(c, Answer{Owned: OwnedState{
			Owner: s.Value.Owner, Fence: s.Fence,
			Age: max(0, p.now.Sub(s.Granted())), EndsIn: max(0, s.EndsAt().Sub(p.now)),
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
