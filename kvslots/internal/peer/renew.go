package peer

import (
	"github.com/kvslots/kvslots/kvslots/internal/entry"
	"github.com/kvslots/kvslots/kvslots/internal/rules"
)

func (r Renew) begin(p *Peer, c *call) {
	c.useSession(r.Session)
	c.effect = true
	r.renew(c)
}

// renew writes the slot of a lease again. A renewal and a purge expect the same
// revision, so only one of them is written. If the lease is over, renew purges the
// slot before it answers, so that no caller sees the lease as live afterwards.
func (r *Renew) renew(c *call) {
	r.Held.withLease(c, func(s *rules.Slot) {
		key, sent := rules.SlotKey(r.Pool, s.Position), c.p.now
		if s.Ended(c.p.now) || s.Expiring(c.p.now) {
			r.endLease(c, s, key)
			return
		}
		value := s.Value
		value.TTL, value.Fence = entry.Span(r.TTL), s.Fence
		c.put(c.p.value(key, value, s.Revision, r.TTL), func(revision uint64) {
			c.p.reads.whenExactAt(c, revision, func() { r.renewed(c, key, revision, sent) })
		}, func() { r.renew(c) })
	}, func(err error) { c.answer(Answer{Err: err}) })
}

// renewed answers a renewal once the view has reached it.
func (r *Renew) renewed(c *call, key entry.Key, revision uint64, sent Instant) {
	s := c.p.view.Pool(key.Pool).Slot(key.N)
	if s == nil || s.Revision != revision { // purged, or renewed again
		r.renew(c)
		return
	}
	if s.Orphaned() { // its pool was deleted
		c.p.writes.release(key, revision, func(Ack) { r.renew(c) })
		return
	}
	if grant, ok := c.p.grantOf(s, r.TTL, sent); ok {
		grant.basis.renewal = true
		c.answer(Answer{Grant: grant})
	} else {
		c.answer(Answer{Err: ErrUnavailable})
	}
}

// endLease purges the slot of a lease that is over, and answers ErrNotHeld.
func (r *Renew) endLease(c *call, s *rules.Slot, key entry.Key) {
	m := c.p.purge(key, s.Revision)
	m.Served = s.Value.Ticket
	ended := c.p.expired(s)
	c.put(m, func(uint64) {
		ended(Ack{Outcome: Written})
		c.answer(Answer{Err: ErrNotHeld})
	}, func() { r.renew(c) })
}
