package rules_test

import (
	"slices"
	"time"

	"github.com/kvslots/kvslots/kvslots/internal/entry"
	"github.com/kvslots/kvslots/kvslots/internal/rules"
)

// simNames is what a simulation of a named pool knows besides.
type simNames struct {
	sessions []entry.Hash            // client sessions that are alive
	began    int                     // client sessions
	at       map[uint64]namedInstant // by revision
	asked    map[uint64]entry.Naming // of claims, by revision
	refusals []refusal
}

// namedInstant is a named pool at one revision.
type namedInstant struct {
	terms uint64   // in force
	live  []uint64 // by fence
}

// refusal is of somebody who was told that others are there under other terms.
type refusal struct{ revision, terms uint64 }

// stepNamed lets one thing happen at, or to, a peer.
func (s *simulation) stepNamed(p *peer) {
	switch n := s.rng.IntN(100); {
	case n < 25:
		p.flush()
	case n < 25+p.speed:
		p.send()
	case n < 25+2*p.speed:
		p.read()
	case n < 74:
		p.borrow(s.rng.IntN(3) > 0)
	case n < 80:
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
	s.names.at[e.Revision] = namedInstant{s.truth.config(simPool).Incarnation, s.now().live}
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

// checkRefusals holds that whoever was refused for his terms was in the way of
// somebody else's: of a lease, or where there was no slot of one who waited. A
// claim that came to nothing is neither.
//
// Peers that skip refuse some wrongly: for a claim that seems to be good and that
// its own peer withdraws, for it cannot know that it is; and for a ticket of which
// they do not know that it is void. Whoever is refused has nothing, and may ask again.
func (s *simulation) checkRefusals() {
	if s.names == nil {
		return
	}
	for _, r := range s.names.refusals {
		at := s.names.at[r.revision]
		right := len(at.live) == 0 && at.terms != 0 && at.terms != r.terms
		for _, fence := range at.live {
			_, granted := s.granted[fence]
			right = right || granted && s.names.asked[fence].Terms() != r.terms
		}
		if !right {
			s.ill++
		}
		if !right && s.whole {
			s.fail("refused at %d for other terms than %d, in force are %d of %v", r.revision, r.terms, at.terms, at.live)
		}
	}
}

// atRest tells whether nothing is left in a named pool, as all peers see it.
func (s *simulation) atRest() bool {
	if s.names == nil {
		return true
	}
	for _, p := range s.peers {
		if pool := p.pool(); pool != nil && pool.Registered() {
			return false
		}
	}
	for key, e := range s.stream.last {
		if key.Kind == entry.Ticket && valid(e) && valid(s.stream.last[sessionKey(key.Session)]) {
			return false
		}
	}
	return true
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
			s.fail("%d: a lease is stale at %d under %+v, in force are %+v and truly %d", slot.Fence, w.Revision, slot.Value.Naming, p.Naming(), s.names.at[w.Revision].terms)
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
	return []entry.Naming{{Name: "x", Limit: 3}, {Name: "x", Limit: 1, Lock: true}}[n]
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

// reckonNamed is reckon in a named pool: others may be there under other terms,
// also this peer's own, whom the view does not know yet.
func (p *peer) reckonNamed(b *simBorrow) (pool *rules.Pool, count int, known bool) {
	pool = p.world.Ensure(simPool)
	if p.gone(b) || p.mismatch(b) {
		p.refuseLater(b)
	}
	return pool, b.naming.Limit, !p.claimsUnderOtherTerms(b)
}

// mismatch tells whether others are there under other terms.
func (p *peer) mismatch(b *simBorrow) bool {
	pool := p.world.Ensure(simPool)
	return pool.Registered() && pool.Incarnation() != b.incarnation
}

func (p *peer) claimsUnderOtherTerms(b *simBorrow) bool {
	return slices.ContainsFunc(p.borrows, func(other *simBorrow) bool {
		return other.claiming && other.incarnation != b.incarnation
	})
}

func (p *peer) refuseLater(b *simBorrow) {
	b.refusing, b.refuseBy = true, p.now().Add(1500*time.Millisecond)
}

// refuse decides about those for whom there seemed to be nothing.
func (p *peer) refuse() {
	for _, b := range p.borrows {
		if !b.refusing || b.over {
			continue
		}
		if !p.world.Exact() {
			p.wantExact()
			return
		}
		p.refuseOne(b, p.world.Ensure(simPool))
	}
}

func (p *peer) refuseOne(b *simBorrow, pool *rules.Pool) {
	doubt, late := pool.InDoubt(p.now()), p.now() > b.refuseBy
	switch {
	case p.gone(b):
		b.over = true
		return
	case p.mismatch(b):
		if late || !doubt && !pool.Disputed() {
			b.over = true
			p.refused(b, p.world.Revision)
		}
		return
	}
	if p.world.Revision >= p.held && p.standing && !p.claimsUnderOtherTerms(b) {
		if position, ok := pool.Choose(nil, &p.flight, b.naming.Limit); ok {
			b.refusing = !p.take(b, position)
			return
		}
	}
	if b.waits && p.standing {
		b.refusing = false
		p.join(b)
	} else if !b.waits && (late || !doubt && pool.InUse() >= b.naming.Limit) {
		b.over = true
	}
}

// refused notes that somebody was told that others were there under other terms.
// While it drains, claims stay in doubt for longer than anybody waits for them.
func (p *peer) refused(b *simBorrow, revision uint64) {
	p.sim.counts.refused++
	if !p.sim.draining {
		p.sim.names.refusals = append(p.sim.names.refusals, refusal{revision, b.incarnation})
	}
}

// seat decides about those whose ticket has come to stand in the line, and lets go
// of those whose session has ended.
func (p *peer) seat() {
	for _, b := range p.borrows {
		if b.ticket == 0 || b.claiming || b.over {
			b.fresh = b.fresh && !b.claiming
			continue
		}
		t := p.pool().Ticket(b.ticket)
		switch {
		case b.promoted:
			b.over = t == nil || !t.Stands()
		case p.gone(b):
			b.over = true
			p.leaveLine(b)
		case b.fresh && b.name.key.Session != p.self: // its presence is gone, and perhaps it is
			p.leaveLine(b)
		case b.fresh && t != nil:
			p.seatOne(b, t)
		}
	}
	p.enqueued = slices.DeleteFunc(p.enqueued, p.stays)
}

func (p *peer) seatOne(b *simBorrow, t *rules.Ticket) {
	switch {
	case t.Unsure() && !p.world.Exact():
		p.wantExact()
	case t.Unsure() && !p.pool().Agreed():
		p.sim.again++
		p.leaveLine(b)
	case t.Void():
		b.over = true
		p.leaveLine(b)
		p.refused(b, t.Revision)
	default:
		b.fresh = false
	}
}

// stays decides about a client session's ticket in the same way, once it is seen.
// One that is to come again is left to its session.
func (p *peer) stays(name simName) (decided bool) {
	if name.revision > p.world.Revision {
		return false
	}
	t := p.pool().Ticket(name.revision)
	switch {
	case t == nil:
	case t.Unsure() && !p.world.Exact():
		p.wantExact()
		return false
	case t.Void(), t.Unsure() && !p.pool().Agreed():
		p.later(marker(t.Key), t.Revision, nil)
		if t.Void() {
			p.refused(&simBorrow{incarnation: t.Value.Incarnation}, t.Revision)
		}
	}
	return true
}

// enqueue draws a ticket for a client session.
func (p *peer) enqueue() {
	session := p.client()
	key := ticketKey(simPool, session, 7)
	if session.IsZero() || (p.pool() != nil && p.pool().TicketAt(key) != nil) {
		return
	}
	naming := simNaming(p.sim.rng.IntN(3) / 2)
	if p.mismatch(&simBorrow{incarnation: naming.Terms()}) {
		return
	}
	e := enqueued(namedTicket(key, p.sim.lease(), naming), p.self)
	p.later(e, p.sim.stream.revision(key), func(revision uint64, ok bool) {
		if ok {
			p.enqueued = append(p.enqueued, simName{key, revision})
		}
	})
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
	p.pool().Slots(func(s *rules.Slot) bool {
		if s.Stale() {
			p.sweep(s)
		}
		return true
	})
}
