package peer

import (
	"time"

	"github.com/kvslots/kvslots/kvslots/internal/entry"
	"github.com/kvslots/kvslots/kvslots/internal/rules"
)

// find is the live slot of a lease in the view; pool reports whether the pool is
// registered.
func (p *Peer) find(h *Held) (s *rules.Slot, pool bool) {
	at := p.world.Pool(h.Pool)
	if at == nil || !at.Registered() {
		return nil, false
	}
	s = at.Lease(h.Lease)
	if s == nil || h.Named && (at.Terms().Lock != h.Lock || h.Fence != 0 && h.Fence != s.Fence) {
		return nil, true
	}
	return s, true
}

// withLease calls do with the slot of a lease. If it seems not to be there, the
// view is asked when it is exact and new enough; then gone is called with why.
func (h *Held) withLease(c *call, do func(*rules.Slot), gone func(error)) {
	if c.p.watch.mode == live && (h.Session.IsZero() || c.p.world.Alive(h.Session)) {
		if s, _ := c.p.find(h); s != nil {
			do(s)
			return
		}
	}
	c.p.ask(c, func() {
		s, pool := c.p.find(h)
		switch {
		case !h.Session.IsZero() && !c.p.world.Alive(h.Session):
			gone(ErrSessionGone)
		case !pool:
			gone(ErrNoPool)
		case s == nil:
			gone(ErrNotHeld)
		default:
			do(s)
		}
	})
}

func (r Return) begin(p *Peer, c *call) {
	c.bound(p.now.Add(patience))
	c.useSession(r.Session)
	c.effect = true
	r.Held.giveBack(c)
}

// giveBack purges the slot of a lease. That the purge was written proves only that
// the slot had not changed; whether its pool had been deleted before, or its
// session had ended, the view tells.
func (h *Held) giveBack(c *call) {
	h.withLease(c, func(s *rules.Slot) {
		value := s.Value
		m := c.p.purge(rules.SlotKey(h.Pool, s.Position), s.Revision)
		m.Ticket, m.Owner = value.Ticket, ownerMark(value.Owner)
		c.purgeFor(m, func(revision uint64) {
			c.p.askFrom(c, revision, func() { h.givenBack(c, value, revision) })
		}, func() { h.giveBack(c) })
	}, func(err error) {
		switch {
		case c.unsure && (err == ErrNotHeld || err == ErrNoPool):
			err = ErrUnavailable // it may have been this call that returned it
		case err == ErrNotHeld:
			err = nil
		}
		c.answer(Answer{Err: err})
	})
}

// purgeFor purges a slot for a caller. then is called, with the revision, when it
// was this very purge that was written; else again, when the view has learnt what
// happened instead.
func (c *call) purgeFor(m entry.Message, then func(uint64), again func()) {
	m.Author = c.p.randomNumber()
	c.p.writes.authored[m.Author] = 0
	c.p.trackPurge(m)
	w := c.p.send(m, nil)
	w.done = func(a Ack) {
		c.p.untrackPurge(m, a)
		switch a.Outcome {
		case Written:
			delete(c.p.writes.authored, m.Author)
			c.p.whenReached(a.Revision, func() { then(a.Revision) })
		case Conflict:
			c.p.whenReached(a.Revision, func() {
				revision := c.p.writes.authored[m.Author]
				delete(c.p.writes.authored, m.Author)
				if revision != 0 {
					then(revision) // by an earlier copy
					return
				}
				c.unsure = c.unsure || w.mayHaveLanded()
				c.tryAgain(m.Key, m.Revision, a, again)
			})
		default:
			delete(c.p.writes.authored, m.Author)
			c.answer(Answer{Err: ErrUnavailable})
		}
	}
}

func (h *Held) givenBack(c *call, value entry.SlotValue, revision uint64) {
	pool := c.p.world.Pool(h.Pool)
	had, known := false, true
	if pool != nil && !c.p.world.EndedBefore(value.Session, revision) {
		had, known = pool.Had(value.Generation, revision)
	}
	if had {
		c.answer(Answer{Returned: true})
		return
	}
	c.unsure = !known
	h.giveBack(c)
}

// tryAgain does something again that was refused at a revision which the view has
// reached: at once if the view has learnt something, else after a pause.
func (c *call) tryAgain(key entry.Key, expected uint64, a Ack, do func()) {
	if c.p.calls.open[c.id] != c {
		return
	}
	if stands, _ := c.p.world.Stands(key); stands != expected {
		do()
		return
	}
	if a.Revision == 0 {
		c.p.world.Absent(key)
	}
	c.p.after(failurePause, func() {
		if c.p.calls.open[c.id] == c {
			do()
		}
	})
}

func (r Renew) begin(p *Peer, c *call) {
	c.bound(p.now.Add(patience))
	c.useSession(r.Session)
	c.effect = true
	r.renew(c)
}

// renew writes the lease again under its slot. A renewal and a purge meet on one
// revision, and exactly one of them wins. A lease that has lasted its time is ended
// before the renewal is refused, so that no caller sees it as live afterwards.
func (r *Renew) renew(c *call) {
	r.Held.withLease(c, func(s *rules.Slot) {
		key, sent := rules.SlotKey(r.Pool, s.Position), c.p.now
		if s.Ended(c.p.now) || s.Expiring(c.p.now) {
			r.endLease(c, s, key)
			return
		}
		value := s.Value
		value.TTL, value.Fence = entry.Span(r.TTL), s.Fence
		expected := s.Revision
		c.p.send(c.p.value(key, value, expected, r.TTL), func(a Ack) {
			switch a.Outcome {
			case Written:
				c.p.askFrom(c, a.Revision, func() { r.renewed(c, key, a.Revision, sent) })
			case Conflict:
				c.p.whenReached(a.Revision, func() {
					c.tryAgain(key, expected, a, func() { r.renew(c) })
				})
			default:
				c.answer(Answer{Err: ErrUnavailable})
			}
		})
	}, func(err error) { c.answer(Answer{Err: err}) })
}

// renewed answers a renewal once the view has reached it.
func (r *Renew) renewed(c *call, key entry.Key, revision uint64, sent Instant) {
	s := c.p.world.Pool(key.Pool).Slot(key.N)
	if s == nil || s.Revision != revision { // ended, or renewed again
		r.renew(c)
		return
	}
	if s.Stale() { // its pool was deleted
		c.p.release(key, revision, func(Ack) { r.renew(c) })
		return
	}
	ttl := remainingTTL(r.TTL, c.p.now.Sub(sent))
	if ttl < time.Second {
		c.answer(Answer{Err: ErrUnavailable})
		return
	}
	c.p.world.EndAt(s, revision, c.p.now.Add(ttl))
	c.answer(Answer{Grant: Grant{
		Position: s.Position, Fence: s.Fence, TTL: ttl, At: c.p.now, Nonce: s.Value.Nonce,
		rests: granted{key: key, revision: revision, ttl: r.TTL, sent: sent, renewal: true},
	}})
}

// endLease purges a lease that has lasted its time, and answers that it is over.
func (r *Renew) endLease(c *call, s *rules.Slot, key entry.Key) {
	m := c.p.purge(key, s.Revision)
	m.Ticket = s.Value.Ticket
	expected := s.Revision
	c.p.trackPurge(m)
	c.p.send(m, func(a Ack) {
		c.p.untrackPurge(m, a)
		switch a.Outcome {
		case Written:
			c.answer(Answer{Err: ErrNotHeld})
		case Conflict:
			c.p.whenReached(a.Revision, func() { c.tryAgain(key, expected, a, func() { r.renew(c) }) })
		default:
			c.answer(Answer{Err: ErrUnavailable})
		}
	})
}
