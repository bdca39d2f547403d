package peer

import (
	"github.com/kvslots/kvslots/kvslots/internal/entry"
	"github.com/kvslots/kvslots/kvslots/internal/rules"
)

// A lock without a session is released by its owner, whose name the slot contains. The
// slot's purge contains a hash of the name, so that every peer knows for a while that this
// owner has released the lock.

func (r ReleaseOwned) begin(_ *Peer, c *call) { r.releaseOwned(c) }

func (r ReleaseOwned) releaseOwned(c *call) {
	c.whenOwnerKnown(r.Pool, func(s *rules.Slot) {
		switch owns := s != nil && (r.Force || s.Value.Owner == r.Owner); {
		case owns:
			r.purge(c, s)
		case c.mayBeWritten: // an earlier purge of this call may have released it
			c.answer(Answer{Err: ErrUnavailable})
		case !r.Force && c.p.view.Pool(r.Pool).ReleasedBy(ownerHash(r.Owner), c.p.now):
			c.answer(Answer{Err: ErrAlreadyReleased})
		case s == nil:
			c.answer(Answer{Err: ErrNotHeld})
		default:
			c.answer(Answer{Err: ErrNotOwner})
		}
	})
}

func (r ReleaseOwned) purge(c *call, s *rules.Slot) {
	m := c.p.purge(rules.SlotKey(r.Pool, s.Position), s.Revision)
	m.Served = s.Value.Ticket
	if !r.Force {
		m.Owner = ownerHash(r.Owner)
	}
	granted := s.Granted
	c.putOnce(m, func(uint64) {
		c.p.counters.Leased.add(c.p.now.Sub(granted))
		c.answer(Answer{Returned: true})
	}, func() { r.releaseOwned(c) })
}

// whenOwnerKnown calls do with the slot of a lock's lease, or nil, when the view is exact
// and as new as now, and the claim cannot be withdrawn.
func (c *call) whenOwnerKnown(id entry.Hash, do func(*rules.Slot)) {
	c.p.reads.whenCurrent(c, func() {
		c.whenCertain(id, func(pool *rules.Pool) {
			s := pool.Slot(0)
			if s != nil && !s.Live() {
				s = nil
			}
			do(s)
		})
	})
}

func (r InspectOwned) begin(p *Peer, c *call) {
	c.whenOwnerKnown(r.Pool, func(s *rules.Slot) {
		if s == nil {
			c.answer(Answer{Err: ErrNotHeld})
			return
		}
		c.answer(Answer{Owned: OwnedState{
			Owner: s.Value.Owner, Fence: s.Fence, Age: max(0, p.now.Sub(s.Granted)), EndsIn: max(0, s.Ends.Sub(p.now)),
		}})
	})
}

// ownerHash returns a hash of an owner for a header, which cannot hold every text; ""
// for no owner.
func ownerHash(owner string) string {
	if owner == "" {
		return ""
	}
	return entry.HashOf("owner", owner).String()
}
