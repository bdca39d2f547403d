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
func (p *Peer) withLease(h *Held, c *call, do func(*rules.Slot), gone func(error)) {
	if p.watch.mode == live && (h.Session.IsZero() || p.world.Alive(h.Session)) {
		if s, _ := p.find(h); s != nil {
			do(s)
			return
		}
	}
	p.ask(c, func() {
		s, pool := p.find(h)
		switch {
		case !h.Session.IsZero() && !p.world.Alive(h.Session):
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
	p.bound(c, p.now.Add(patience))
	p.useSession(c, r.Session)
	c.effect = true
	p.giveBack(&r.Held, c)
}

// giveBack purges the slot of a lease. That the purge was written proves only that
// the slot had not changed; whether its pool had been deleted before, or its
// session had ended, the view tells.
func (p *Peer) giveBack(h *Held, c *call) {
	p.withLease(h, c, func(s *rules.Slot) {
		value := s.Value
		m := p.purge(rules.SlotKey(h.Pool, s.Position), s.Revision)
		m.Ticket, m.Owner = value.Ticket, ownerMark(value.Owner)
		p.purgeFor(c, m, func(revision uint64) {
			p.askFrom(c, revision, func() { p.givenBack(h, c, value, revision) })
		}, func() { p.giveBack(h, c) })
	}, func(err error) {
		switch {
		case c.unsure && (err == ErrNotHeld || err == ErrNoPool):
			err = ErrUnavailable // it may have been this call that returned it
		case err == ErrNotHeld:
			err = nil
		}
		p.answer(c, Answer{Err: err})
	})
}

// purgeFor purges a slot for a caller. then is called, with the revision, when it
// was this very purge that was written; else again, when the view has learnt what
// happened instead.
func (p *Peer) purgeFor(c *call, m entry.Message, then func(uint64), again func()) {
	m.Author = p.randomNumber()
	p.authored[m.Author] = 0
	p.trackPurge(m)
	w := p.send(m, nil)
	w.done = func(a Ack) {
		p.untrackPurge(m, a)
		switch a.Outcome {
		case Written:
			delete(p.authored, m.Author)
			p.whenReached(a.Revision, func() { then(a.Revision) })
		case Conflict:
			p.whenReached(a.Revision, func() {
				revision := p.authored[m.Author]
				delete(p.authored, m.Author)
				if revision != 0 {
					then(revision) // by an earlier copy
					return
				}
				c.unsure = c.unsure || p.mayHaveLanded(w)
				p.tryAgain(c, m.Key, m.Revision, a, again)
			})
		default:
			delete(p.authored, m.Author)
			p.answer(c, Answer{Err: ErrUnavailable})
		}
	}
}

func (p *Peer) givenBack(h *Held, c *call, value entry.SlotValue, revision uint64) {
	pool := p.world.Pool(h.Pool)
	if pool != nil && pool.Had(value.Generation, revision) && !p.world.EndedBefore(value.Session, revision) {
		p.answer(c, Answer{Returned: true})
		return
	}
	c.unsure = false
	p.giveBack(h, c)
}

// tryAgain does something again that was refused at a revision which the view has
// reached: at once if the view has learnt something, else after a pause.
func (p *Peer) tryAgain(c *call, key entry.Key, expected uint64, a Ack, do func()) {
	if p.calls.open[c.id] != c {
		return
	}
	if stands, _ := p.world.Stands(key); stands != expected {
		do()
		return
	}
	if a.Revision == 0 {
		p.world.Absent(key)
	}
	p.after(failurePause, func() {
		if p.calls.open[c.id] == c {
			do()
		}
	})
}

func (r Renew) begin(p *Peer, c *call) {
	p.bound(c, p.now.Add(patience))
	p.useSession(c, r.Session)
	c.effect = true
	p.renew(&r, c)
}

// renew writes the lease again under its slot. A renewal and a purge meet on one
// revision, and exactly one of them wins. A lease that has lasted its time is ended
// before the renewal is refused, so that no caller sees it as live afterwards.
func (p *Peer) renew(r *Renew, c *call) {
	p.withLease(&r.Held, c, func(s *rules.Slot) {
		key, sent := rules.SlotKey(r.Pool, s.Position), p.now
		if s.Ended(p.now) || s.Expiring(p.now) {
			p.endLease(r, c, s, key)
			return
		}
		value := s.Value
		value.TTL, value.Fence = entry.Span(r.TTL), s.Fence
		expected := s.Revision
		p.send(p.value(key, value, expected, r.TTL), func(a Ack) {
			switch a.Outcome {
			case Written:
				p.askFrom(c, a.Revision, func() { p.renewed(r, c, key, a.Revision, sent) })
			case Conflict:
				p.whenReached(a.Revision, func() {
					p.tryAgain(c, key, expected, a, func() { p.renew(r, c) })
				})
			default:
				p.answer(c, Answer{Err: ErrUnavailable})
			}
		})
	}, func(err error) { p.answer(c, Answer{Err: err}) })
}

// renewed answers a renewal once the view has reached it.
func (p *Peer) renewed(r *Renew, c *call, key entry.Key, revision uint64, sent Instant) {
	s := p.world.Pool(key.Pool).Slot(key.N)
	if s == nil || s.Revision != revision { // ended, or renewed again
		p.renew(r, c)
		return
	}
	if s.Stale() { // its pool was deleted
		p.release(key, revision, func(Ack) { p.renew(r, c) })
		return
	}
	ttl := remainingTTL(r.TTL, p.now.Sub(sent))
	if ttl < time.Second {
		p.answer(c, Answer{Err: ErrUnavailable})
		return
	}
	p.world.EndAt(s, revision, p.now.Add(ttl))
	p.answer(c, Answer{Grant: Grant{Position: s.Position, Fence: s.Fence, TTL: ttl, At: p.now, Nonce: s.Value.Nonce,
		rests: granted{key: key, revision: revision, ttl: r.TTL, sent: sent, renewal: true}}})
}

// endLease purges a lease that has lasted its time, and answers that it is over.
func (p *Peer) endLease(r *Renew, c *call, s *rules.Slot, key entry.Key) {
	m := p.purge(key, s.Revision)
	m.Ticket = s.Value.Ticket
	expected := s.Revision
	p.trackPurge(m)
	p.send(m, func(a Ack) {
		p.untrackPurge(m, a)
		switch a.Outcome {
		case Written:
			p.answer(c, Answer{Err: ErrNotHeld})
		case Conflict:
			p.whenReached(a.Revision, func() { p.tryAgain(c, key, expected, a, func() { p.renew(r, c) }) })
		default:
			p.answer(c, Answer{Err: ErrUnavailable})
		}
	})
}
