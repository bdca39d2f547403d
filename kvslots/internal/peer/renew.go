package peer

import (
	"github.com/kvslots/kvslots/kvslots/internal/entry"
	"github.com/kvslots/kvslots/kvslots/internal/rules"
)

// renew writes the slot of a lease again. A renewal and a purge expect the same
// revision, so only one of them is written. If the lease is over, renew purges the
// slot before it answers, so that no caller sees the lease as live afterwards.
func (r *Renew) renew(c *call) {
	r.Held.withLease(c, func(s *rules.Slot) {
		key, sent := rules.SlotKey(r.Pool, s.Position), c.k.now
		if s.Ended(c.k.now) || s.Expiring(c.k.now) {
			r.endLease(c, s, key)
			return
		}
		c.put(c.k.value(key, s.Renewed(r.TTL), s.Revision, r.TTL), func(w resolution) {
			r.renewed(c, key, w.revision, sent)
		}, func() { r.renew(c) })
	}, func(err error) { c.answer(Answer{Err: err}) })
}

// renewed answers a renewal once the view has reached it.
func (r *Renew) renewed(c *call, key entry.Key, revision uint64, sent Instant) {
	s := c.k.view.Pool(key.Pool).Slot(key.N)
	if s == nil || s.Revision != revision { // purged, or renewed again
		r.renew(c)
		return
	}
	if s.Orphaned() { // its pool was deleted
		c.k.writes.discard(key, revision, func(resolution) { r.renew(c) })
		return
	}
	if grant, ok := c.k.grantOf(s, r.TTL, sent); ok {
		grant.basis.renewal = true
		c.answer(Answer{Grant: grant})
	} else {
		c.answer(Answer{Err: ErrUnavailable})
	}
}

// endLease purges the slot of a lease that is over, and answers ErrNotHeld.
func (r *Renew) endLease(c *call, s *rules.Slot, key entry.Key) {
	ended := c.k.expired(s)
	m := c.k.purgeSlot(s)
	m.Cause = entry.Expired
	c.put(m, func(w resolution) {
		ended(w)
		c.answer(Answer{Err: ErrNotHeld})
	}, func() { r.renew(c) })
}
