package rules_test

import (
	"slices"

	"github.com/kvslots/kvslots/kvslots/internal/entry"
	"github.com/kvslots/kvslots/kvslots/internal/rules"
)

// simNames is what a simulation of a named pool knows besides.
type simNames struct {
	sessions []entry.Hash            // client sessions that are alive
	began    int                     // client sessions
	at       map[uint64]uint64       // the terms in force, by revision
	asked    map[uint64]entry.Naming // of claims, by revision
}

// stepNamed lets one thing happen at, or to, a peer.
func (s *simulation) stepNamed(p *peer) {
	switch n := s.rng.IntN(100); {
	case n < 25:
		p.flush()
	case n < 25+p.speed:
		p.send()
	case n < 25+2*p.speed:
		p.read()
	case n < 76:
		p.borrow(s.rng.IntN(3) > 0)
	case n < 86:
		p.giveBack()
	case n < 89:
		p.renew()
	case n < 92:
		p.enqueue()
	case n < 98:
		s.tend(p)
	case n < 99:
		p.sweepStrays()
	default:
		p.endPresence(s.peers[s.rng.IntN(len(s.peers))])
	}
}

// tend begins a client session, refreshes one or ends one.
func (s *simulation) tend(p *peer) {
	switch n := s.rng.IntN(4); {
	case n == 0 || len(s.names.sessions) == 0:
		s.names.began++
		id := sessionID(10_000 + s.names.began)
		s.write(client(id, 1e9), 0)
		s.names.sessions = append(s.names.sessions, id)
	case n < 3:
		id := s.names.sessions[s.rng.IntN(len(s.names.sessions))]
		s.write(client(id, 1e9), s.stream.revision(sessionKey(id)))
	default:
		i := s.rng.IntN(len(s.names.sessions))
		id := s.names.sessions[i]
		s.names.sessions = slices.Delete(s.names.sessions, i, i+1)
		s.write(marker(sessionKey(id)), s.stream.revision(sessionKey(id)))
	}
}

// noteTerms notes what is in force at every revision.
func (s *simulation) noteTerms(e entry.Entry) {
	if s.names == nil {
		return
	}
	s.names.at[e.Revision] = s.truth.config(simPool).Incarnation
	if e.Key.Kind == entry.Slot && valid(e) && e.Slot.Fence == 0 {
		s.names.asked[e.Revision] = e.Slot.Naming
	}
}

// checkOneTerms holds that all who had a lease when one was granted had the same
// terms, and were no more than those allow.
func (s *simulation) checkOneTerms(fence uint64) {
	if s.names == nil {
		return
	}
	asked, held := s.names.asked[fence], 0
	for _, other := range s.at[fence].held {
		if _, granted := s.granted[other]; !granted {
			continue
		}
		if held++; s.names.asked[other].Terms() != asked.Terms() {
			s.overIssued++
			s.fail("%d: granted under %+v, while %d is held under %+v", fence, asked, other, s.names.asked[other])
		}
	}
	if held > asked.Limit {
		s.overIssued++
		s.fail("%d: %d leases of %d", fence, held, asked.Limit)
	}
}

// agreeOnTerms holds that no exact view takes a lease for something to be purged.
func (s *simulation) agreeOnTerms(w *rules.World, p *rules.Pool) {
	if s.names == nil {
		return
	}
	p.Slots(func(slot *rules.Slot) bool {
		session := w.Session(slot.Value.Session)
		owned := slot.Value.Session.IsZero() || (session != nil && session.Present)
		if s.granted[slot.Fence] == slot.Value.Lease && owned && slot.Stale() {
			s.stale++
			s.fail("%d: a lease is stale at %d under %+v, in force are %+v and truly %d", slot.Fence, w.Revision, slot.Value.Naming, p.Naming(), s.names.at[w.Revision])
		}
		return true
	})
}

// ask draws what somebody wants: one of two terms, perhaps for a client session.
func (p *peer) ask(b *simBorrow) {
	b.naming = simNaming(p.sim.rng.IntN(3) / 2)
	b.incarnation = b.naming.Terms()
	if p.sim.rng.IntN(2) == 0 {
		b.session = p.client()
	}
}

func simNaming(n int) entry.Naming {
	return []entry.Naming{{Name: "x", Limit: 2}, {Name: "x", Limit: 1, Lock: true}}[n]
}

// client is one of the client sessions that the view holds to be alive, or none.
func (p *peer) client() entry.Hash {
	if len(p.sim.names.sessions) == 0 {
		return entry.Hash{}
	}
	id := p.sim.names.sessions[p.sim.rng.IntN(len(p.sim.names.sessions))]
	if s := p.world.Session(id); s == nil || !s.Present {
		return entry.Hash{}
	}
	return id
}

// gone tells whether the session that somebody borrows for has ended.
func (p *peer) gone(b *simBorrow) bool {
	s := p.world.Session(b.session)
	return !b.session.IsZero() && (s == nil || !s.Present)
}

// reckonNamed is reckon in a named pool: others may be there under other terms.
func (p *peer) reckonNamed(b *simBorrow) (pool *rules.Pool, count int, known bool) {
	pool = p.world.Ensure(simPool)
	switch {
	case p.gone(b):
		b.over = true
	case !pool.Registered() || pool.Incarnation() == b.incarnation:
		for _, other := range p.borrows {
			if other.flying && other.incarnation != b.incarnation {
				return pool, 0, false
			}
		}
		return pool, b.naming.Limit, true
	case !p.world.Exact():
		p.wantExact()
	case pool.InDoubt(p.now()):
	default:
		b.over = true
		p.refuse(b)
	}
	return pool, 0, false
}

// refuse tells somebody that others are there under other terms.
func (p *peer) refuse(b *simBorrow) {
	p.sim.refused++
	if at := p.sim.names.at[p.world.Revision]; !p.sim.draining && (at == 0 || at == b.incarnation) {
		p.sim.ill++
		p.sim.fail("refused at %d for other terms than %+v, in force are %d", p.world.Revision, b.naming, at)
	}
}

// dismissNamed refuses those whose ticket came under other terms, and lets go of
// those whose session has ended.
func (p *peer) dismissNamed() {
	for _, b := range p.borrows {
		if b.ticket == 0 || b.claiming {
			continue
		}
		t := p.pool().Ticket(b.ticket)
		switch {
		case b.promoted && (t == nil || !t.Stands()), p.gone(b):
			b.over = true
			if !b.promoted {
				p.leaveLine(b)
			}
		case t == nil || !t.Void() || b.promoted:
		case !p.world.Exact():
			p.wantExact()
		default:
			p.leaveLine(b)
			b.over = true
		}
	}
}

// seatKnown tells whether a ticket is a good one.
func (p *peer) seatKnown(t *rules.Ticket) bool { return !t.Void() }

// enqueue draws a ticket for a client session.
func (p *peer) enqueue() {
	session := p.client()
	key := ticketKey(simPool, session, 7)
	if session.IsZero() || (p.pool() != nil && p.pool().TicketAt(key) != nil) {
		return
	}
	e := enqueued(namedTicket(key, p.sim.lease(), simNaming(p.sim.rng.IntN(3)/2)), p.self)
	p.later(e, p.sim.stream.revision(key), nil)
}

// promote claims for the enqueued tickets whose turn it is. Two peers may do so
// at once.
func (p *peer) promote() {
	if p.sim.names == nil || p.pool() == nil {
		return
	}
	for _, t := range p.pool().Able() {
		at := slices.IndexFunc(p.borrows, func(b *simBorrow) bool { return b.ticket == t.Revision })
		if v := t.Value; v.Enqueued() && at < 0 && (v.Peer == p.self || p.sim.draining || p.sim.rng.IntN(4) == 0) {
			p.borrows = append(p.borrows, &simBorrow{
				lease: v.Lease, waits: true, promoted: true, incarnation: v.Incarnation, naming: v.Naming, session: v.Session,
				ticket: t.Revision, name: simName{key: t.Key},
			})
		}
	}
}

// sweepStrays purges what holds no slot, and what stands in no line.
func (p *peer) sweepStrays() {
	if p.sim.names == nil || p.pool() == nil {
		return
	}
	if !p.world.Exact() {
		p.wantExact()
		return
	}
	for _, t := range p.world.Unattended(10) {
		p.later(marker(t.Key), t.Revision, nil)
	}
	if !p.sim.draining {
		return
	}
	p.pool().Tickets(func(t *rules.Ticket) bool {
		if t.Void() && t.Value.Enqueued() {
			p.later(marker(t.Key), t.Revision, nil)
		}
		return true
	})
	p.pool().Slots(func(s *rules.Slot) bool {
		if s.Stale() {
			p.sweep(s)
		}
		return true
	})
}
