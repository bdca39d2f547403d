package peer

import (
	"slices"
	"time"

	"github.com/kvslots/kvslots/kvslots/internal/entry"
	"github.com/kvslots/kvslots/kvslots/internal/rules"
)

// promoteGrace is how long a peer waits for each peer that comes before it to claim
// for an enqueued ticket.
const promoteGrace = 300 * time.Millisecond

// status is the status of a session that may have enqueued in a pool.
type status uint8

// The statuses.
const (
	absent   status = iota // it has not enqueued, or it has had the outcome
	queued                 // its ticket stands in the line
	served                 // it holds a slot, and has not called Await since
	spent                  // its lease has ended before it called Await
	doubtful               // a claim for its ticket may still be withdrawn
	void                   // a claim for its ticket is to be purged: it is void and its peer has not withdrawn it, or it is untold
)

// enqueued is a status, with the session's ticket and slot.
type enqueued struct {
	status status
	ticket *rules.Ticket // may be nil
	slot   *rules.Slot   // may be nil
}

// enqueuedKey returns the key of the ticket that a session has enqueued in a pool.
func enqueuedKey(pool, session entry.Hash) entry.Key {
	return entry.Key{Kind: entry.Ticket, Pool: pool, Session: session}
}

// enqueuedIn reads the status from the view. absent, spent and void are only certain if
// the view is exact.
func (p *Peer) enqueuedIn(pool *rules.Pool, session entry.Hash) enqueued {
	var e enqueued
	s := p.view.Session(session)
	if pool == nil || s == nil {
		return e
	}
	for _, slot := range s.Slots {
		if slot.Pool == pool && slot.Live() && slot.Value.Unseen {
			e.slot = slot
		}
	}
	e.ticket = pool.TicketAt(enqueuedKey(pool.ID, session))
	switch t, s := e.ticket, e.slot; {
	case s != nil && untold(s):
		e.status = void
	case s != nil && s.Verdict() != rules.Good && s.InDoubt(p.now):
		e.status = doubtful
	case s != nil && s.Verdict() != rules.Good && s.Value.Ticket != 0: // without a ticket, the caller may have been answered
		e.status = void
	case s != nil:
		e.status = served
	case t == nil:
	case t.Value.Spent:
		e.status = spent
	case t.Stands() || t.Claimed():
		e.status = queued
	}
	return e
}

// untold reports whether a live slot was claimed for an enqueued ticket, and the verdict
// is lost. The claim's own peer may judge it good, but has told no caller: so any peer may
// purge the slot, after which the ticket stands again.
func untold(s *rules.Slot) bool {
	return s.Live() && s.Verdict() == rules.Lost && s.Value.Unseen && s.Value.Ticket != 0
}

func (r Enqueue) begin(p *Peer, c *call) {
	c.useSession(r.Session)
	r.enqueue(c, false)
}

// enqueue starts the borrow of an Enqueue, once it is certain that the session has not
// enqueued before. twice is set if the call has found a ticket, maybe its own, where it
// was about to write one.
func (r Enqueue) enqueue(c *call, twice bool) {
	c.p.reads.whenCurrent(c, func() {
		e := c.p.enqueuedIn(c.p.view.Pool(r.Pool), r.Session)
		switch again := func() { r.enqueue(c, twice) }; {
		case !c.p.view.Alive(r.Session):
			c.answer(Answer{Err: ErrSessionGone})
		case e.status == doubtful, twice && e.ticket != nil && e.ticket.Value.Lease == r.Lease: // its own ticket is being purged
			c.after(failurePause, again)
		case e.status == void: // no caller was answered
			c.p.writes.release(rules.SlotKey(r.Pool, e.slot.Position), e.slot.Revision, func(Ack) { again() })
		case e.status == queued && e.ticket.Value.Peer != c.p.self.id:
			c.p.adopt(e.ticket, again)
		case e.status == queued || e.status == served:
			c.answer(Answer{Err: ErrAlreadyEnqueued})
		default:
			c.p.start(&borrow{
				p: c.p, call: c, pool: c.p.pools.of(r.Pool), kind: forEnqueue, current: true, again: func() { r.enqueue(c, true) },
				wish: wish{lease: r.Lease, ttl: r.TTL, session: r.Session, nonce: r.Nonce, terms: r.terms()},
			}, 0)
		}
	})
}

// adopt writes a session's ticket again, with this peer as the one that claims for it.
// A peer that undoes its write of the ticket later does not purge an adopted ticket.
func (p *Peer) adopt(t *rules.Ticket, then func()) {
	if p.self.revision == 0 || p.view.Expiring(t.Key, p.now) {
		p.after(failurePause, then)
		return
	}
	value := t.Value
	value.Peer, value.Place = p.self.id, t.Place
	p.writes.put(p.value(t.Key, value, t.Revision, rules.EnqueuedLife), func(f fate) {
		if f.result == unknown {
			p.after(failurePause, then)
		} else {
			then()
		}
	})
}

// promote starts a borrow for each enqueued ticket whose turn it is, if it is this
// peer's part to claim for it. First comes the ticket's own peer, then the live peers
// by the order of their presences.
func (p *Peer) promote(pool *rules.Pool) {
	if p.watch.mode != live || p.closing || p.self.revision == 0 {
		return
	}
	if ps := p.pools.byID[pool.ID]; ps != nil && len(ps.promoting) > 0 {
		ps.dropPromotions(pool)
	}
	for _, t := range pool.Able() {
		if !t.Value.Enqueued() || !p.promotes(t) {
			continue
		}
		if t.Doubtful(p.now) {
			// A ticket that still stands when the view has reached a barrier was not
			// served. An exact view is not enough: the entry that named the skipped
			// one need not say which ticket that served.
			p.pools.of(pool.ID).want(func(do func()) { p.reads.whenCurrent(nil, do) })
			continue
		}
		ps := p.pools.of(pool.ID)
		if ps.promoting[t.Place] != nil {
			continue
		}
		b := &borrow{
			p: p, kind: forTicket, pool: ps, phase: waiting, generation: t.Value.Generation,
			wish: wish{
				lease: t.Value.Lease, ttl: t.Value.TTL.Duration(), session: t.Key.Session, nonce: t.Value.Nonce, terms: pool.Terms(),
			},
			ticket: ticket{key: t.Key, server: p.self.id, revision: t.Revision, place: t.Place},
		}
		ps.borrows++
		put(&ps.promoting, t.Place, b)
		ps.mark()
	}
}

// dropPromotions ends the borrows of enqueued tickets that do not stand any more.
func (ps *poolState) dropPromotions(pool *rules.Pool) {
	var gone []*borrow
	for place, b := range ps.promoting {
		if t := pool.Ticket(place); b.phase == waiting && (t == nil || !t.Stands()) {
			gone = append(gone, b)
		}
	}
	sortByPlace(gone)
	for _, b := range gone {
		b.finish(Answer{Err: ErrNoSlot})
	}
}

// promotes reports whether this peer has to claim for a ticket now.
func (p *Peer) promotes(t *rules.Ticket) bool {
	self, author := p.self.id, t.Value.Peer
	if author == self {
		return true
	}
	before := 0 // peers that come before this one
	p.view.Peers(func(s *rules.Session) bool {
		if s.ID == author || slices.Compare(s.ID[:], self[:]) < 0 {
			before++
		}
		return true
	})
	since, ok := t.CouldSince()
	return before == 0 || ok && p.now.Sub(since) >= promoteGrace*time.Duration(before)
}
