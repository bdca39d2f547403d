package peer

import (
	"github.com/kvslots/kvslots/kvslots/internal/entry"
	"github.com/kvslots/kvslots/kvslots/internal/rules"
)

// find returns the live slot of a lease in the view, or why there is none.
func (h *Held) find(p *Peer) (*rules.Slot, error) {
	pool := p.view.Pool(h.Pool)
	switch {
	case !h.Session.IsZero() && !p.view.Alive(h.Session):
		return nil, ErrSessionGone
	case !pool.Registered():
		return nil, ErrNoPool
	}
	s := pool.Lease(h.Lease, h.Fence)
	if s == nil || h.Named && pool.Terms().Lock != h.Lock {
		return nil, ErrNotHeld
	}
	return s, nil
}

// withLease calls do with the slot of a lease, whose ticket is out of the line. If the view does not show the lease,
// withLease looks again when the view is exact and as new as the call, and may then
// call gone.
func (h *Held) withLease(c *call, do func(*rules.Slot), gone func(error)) {
	found := func(s *rules.Slot) {
		t := leftTicket(s)
		if t == nil {
			do(s)
			return
		}
		again := func() { h.withLease(c, do, gone) }
		c.put(c.p.purge(t.Key, t.Revision), func(uint64) { again() }, again)
	}
	if s, err := h.find(c.p); err == nil && c.p.watch.mode == live {
		found(s)
		return
	}
	c.p.reads.whenCurrent(c, func() {
		if s, err := h.find(c.p); err == nil {
			found(s)
		} else {
			gone(err)
		}
	})
}

// when calls do if shown returns true, now or when the view is exact and as new as
// now; otherwise it calls not.
func (c *call) when(shown func() bool, do, not func()) {
	if c.p.watch.mode == live && shown() {
		do()
		return
	}
	c.p.reads.whenCurrent(c, func() {
		if shown() {
			do()
		} else {
			not()
		}
	})
}

func (r Return) begin(p *Peer, c *call) {
	c.useSession(r.Session)
	c.effect = true
	r.Held.giveBack(c)
}

// giveBack purges the slot of a lease. If the purge is written, the slot had not
// changed, but its pool may have been deleted before, or its session may have ended:
// givenBack checks that when the view has reached the purge.
func (h *Held) giveBack(c *call) {
	h.withLease(c, func(s *rules.Slot) {
		value, granted := s.Value, s.Granted
		m := c.p.purge(rules.SlotKey(h.Pool, s.Position), s.Revision)
		m.Ticket, m.Owner = value.Ticket, ownerMark(value.Owner)
		c.putOnce(m, func(revision uint64) {
			c.p.reads.whenExactAt(c, revision, func() { h.givenBack(c, value, granted, revision) })
		}, func() { h.giveBack(c) })
	}, func(err error) {
		switch {
		case c.unsure && (err == ErrNotHeld || err == ErrNoPool):
			err = ErrUnavailable // an earlier purge of this call may have returned it
		case err == ErrNotHeld:
			err = nil
		}
		c.answer(Answer{Err: err})
	})
}

func (h *Held) givenBack(c *call, value entry.SlotValue, granted Instant, revision uint64) {
	pool := c.p.view.Pool(h.Pool)
	had, known := false, true
	if pool != nil && !c.p.view.EndedBefore(value.Session, revision) {
		had, known = pool.Had(value.Generation, revision)
	}
	if had {
		c.p.counters.Leased.add(c.p.now.Sub(granted))
		c.answer(Answer{Returned: true})
		return
	}
	c.unsure = !known
	h.giveBack(c)
}

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
	m.Ticket = s.Value.Ticket
	ended := c.p.expired(s)
	c.put(m, func(uint64) {
		ended(Ack{Outcome: Written})
		c.answer(Answer{Err: ErrNotHeld})
	}, func() { r.renew(c) })
}
