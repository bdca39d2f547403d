package peer

import (
	"github.com/kvslots/kvslots/kvslots/internal/entry"
	"github.com/kvslots/kvslots/kvslots/internal/rules"
)

// renew writes the slot of a lease again. A renewal and a purge expect the same
// revision, so only one of them is written. If the lease is over, renew purges the
// slot before it answers, so that no caller sees the lease as live afterwards.
func (r *Renew) renew(p *leases, c *call) {
	r.Held.withLease(p, c, func(s *rules.Slot) {
		key, sent := rules.SlotKey(r.Pool, s.Position), p.now()
		if s.Ended(p.now()) || s.Expiring(p.now()) {
			r.endLease(p, c, s, key)
			return
		}
		value := s.Rewritten(r.TTL)
		value.Known, value.Answers = true, nil
		p.putFor(c, p.value(key, value, s.Revision, r.TTL), func(w *write) {
			r.renewed(p, c, key, w.revision(), sent)
		}, func() { r.renew(p, c) })
	}, func(err error) { c.answer(Answer{Err: err}) })
}

// renewed answers a renewal once the view has reached it.
func (r *Renew) renewed(p *leases, c *call, key entry.Key, revision uint64, sent Instant) {
	s := p.view().Pool(key.Pool).Slot(key.N)
	if s == nil || s.Revision != revision { // purged, or renewed again
		r.renew(p, c)
		return
	}
	if s.Orphaned() { // its pool was deleted
		p.discard(key, revision, func(*write) { r.renew(p, c) })
		return
	}
	if grant, ok := p.grantOf(s, r.TTL, sent); ok {
		c.answer(Answer{Grant: grant})
	} else {
		c.answer(Answer{Err: ErrUnavailable})
	}
}

// endLease purges the slot of a lease that is over, and answers ErrExpired.
func (r *Renew) endLease(p *leases, c *call, s *rules.Slot, key entry.Key) {
	ended := p.expired(s)
	m := p.purgeSlot(s)
	m.Cause = entry.Expired
	p.putFor(c, m, func(w *write) {
		ended(w)
		c.answer(Answer{Err: ErrExpired})
	}, func() { r.renew(p, c) })
}
