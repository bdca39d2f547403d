package peer

import (
	"slices"
	"time"

	"github.com/kvslots/kvslots/kvslots/internal/entry"
	"github.com/kvslots/kvslots/kvslots/internal/rules"
)

// promoteGrace is how long a peer leaves an enqueued ticket to another one that
// comes before it.
const promoteGrace = 300 * time.Millisecond

// status is what has become of what a session enqueued for.
type status uint8

// The statuses.
const (
	absent   status = iota // it has not enqueued, or knows the outcome
	queued                 // it stands in line
	served                 // it holds a slot, and has not asked
	spent                  // it held a slot and did not ask in time
	doubtful               // a claim for it may yet be withdrawn
	void                   // a claim for it came to nothing, and its peer has not withdrawn it
)

// enqueued is that, with what stands in the bucket.
type enqueued struct {
	status status
	ticket *rules.Ticket // nil where there is none
	slot   *rules.Slot   // nil where it has none
}

// enqueuedKey is the key of what a session has enqueued in a pool.
func enqueuedKey(pool, session entry.Hash) entry.Key {
	return entry.Key{Kind: entry.Ticket, Pool: pool, Session: session}
}

// enqueuedIn reads the status from the view. Unless the view is exact, absent and
// spent are guesses.
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
	case s != nil && s.Verdict() != rules.Good && s.InDoubt(p.now):
		e.status = doubtful
	case s != nil && s.Verdict() != rules.Good && s.Value.Ticket != 0: // else its caller may have been told
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

func (r Enqueue) begin(p *Peer, c *call) {
	c.useSession(r.Session)
	r.enqueue(c, false)
}

// enqueue takes up an Enqueue when it is certain that the session has not enqueued
// before. twice says that a ticket was found when the call came to write one, which
// may be its own.
func (r Enqueue) enqueue(c *call, twice bool) {
	c.p.ask(c, func() {
		e := c.p.enqueuedIn(c.p.view.Pool(r.Pool), r.Session)
		switch again := func() { r.enqueue(c, twice) }; {
		case !c.p.view.Alive(r.Session):
			c.answer(Answer{Err: ErrSessionGone})
		case e.status == doubtful, twice && e.ticket != nil && e.ticket.Value.Lease == r.Lease: // its own one is being purged
			c.after(failurePause, again)
		case e.status == void: // no caller was told
			c.p.release(rules.SlotKey(r.Pool, e.slot.Position), e.slot.Revision, func(Ack) { again() })
		case e.status == queued && e.ticket.Value.Peer != c.p.self.id:
			c.p.adopt(e.ticket, again)
		case e.status == queued || e.status == served:
			c.answer(Answer{Err: ErrAlreadyEnqueued})
		default:
			c.p.start(&borrow{
				p: c.p, call: c, pool: c.p.pool(r.Pool), kind: forEnqueue, current: true, again: func() { r.enqueue(c, true) },
				wish: wish{lease: r.Lease, ttl: r.TTL, session: r.Session, nonce: r.Nonce, terms: r.terms()},
			}, 0)
		}
	})
}

// adopt makes a session's ticket one that this peer is to claim for: what its
// author undoes later is then not the ticket that a caller was told of here.
func (p *Peer) adopt(t *rules.Ticket, then func()) {
	if p.self.revision == 0 || p.view.Expiring(t.Key, p.now) {
		p.after(failurePause, then)
		return
	}
	value := t.Value
	value.Peer, value.Place = p.self.id, t.Place
	p.put(p.value(t.Key, value, t.Revision, rules.EnqueuedLife), func(f fate) {
		if f.result == unknown {
			p.after(failurePause, then)
		} else {
			then()
		}
	})
}

// promote takes up a borrow for each enqueued ticket whose turn it is. Any peer may
// claim for it. One does: its own; if that has gone, the one with the lowest name;
// and if that does not, the next.
func (p *Peer) promote(pool *rules.Pool) {
	if p.watch.mode != live || p.closing || p.self.revision == 0 {
		return
	}
	if ps := p.pools[pool.ID]; ps != nil && len(ps.promoting) > 0 {
		ps.dropPromotions(pool)
	}
	for _, t := range pool.Able() {
		if !t.Value.Enqueued() || !p.promotes(t) {
			continue
		}
		if t.Doubtful(p.now) {
			// When the view has reached a barrier, and the tickets of the line still
			// stand, they were not served. That the view is exact does not do, for what
			// was skipped may have been named since without saying so.
			p.pool(pool.ID).want(func(do func()) { p.ask(nil, do) })
			continue
		}
		ps := p.pool(pool.ID)
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

// dropPromotions ends the borrows of tickets that do not stand any more.
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

// promotes reports whether it is for this peer to claim for a ticket.
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
