package peer

import (
	"time"

	"github.com/kvslots/kvslots/kvslots/internal/entry"
	"github.com/kvslots/kvslots/kvslots/internal/rules"
)

// enqueued serves what sessions enqueue.
type enqueued struct {
	*pools
	awaits map[sessionPool][]*await
}

type sessionPool struct{ pool, session entry.Hash }

// enqueue starts the borrow of an Enqueue, once it is certain that the session has not
// enqueued before.
func (p *enqueued) enqueue(c *call, r Enqueue) {
	p.reads.whenCurrent(c, func() {
		e := p.view.EnqueuedIn(p.view.Pool(r.Pool), r.Session)
		switch again := func() { p.enqueue(c, r) }; {
		case !p.view.Alive(r.Session):
			c.answer(Answer{Err: ErrSessionGone})
		case e.Status == rules.Unserved: // no caller was answered
			p.writes.discard(rules.SlotKey(r.Pool, e.Slot.Position), e.Slot.Revision, func(resolution) { again() })
		case e.Status == rules.Queued && e.Ticket.Value.Peer != p.self.id:
			p.adopt(e.Ticket, again)
		case e.Status == rules.Queued || e.Status == rules.Served && (e.Slot.Value.Ticket != 0 || e.Slot.Value.Request != r.Request || r.Request.IsZero()):
			c.answer(r.repeated(e))
		default:
			p.start(p.of(r.Pool), wish{
				lease: r.Lease, ttl: r.TTL, session: r.Session, nonce: r.Nonce, terms: r.terms(), request: r.Request,
				label: r.Label,
			}, byEnqueue{again: again}).add(c, nil, 0).current = true
		}
	})
}

// repeated returns the answer to an Enqueue of a session that has enqueued before. If it is a
// repeat, by its request key, it is answered as before.
func (r Enqueue) repeated(e rules.Enqueued) Answer {
	request, asked := e.Request()
	switch {
	case r.Request.IsZero() || request != r.Request:
		return Answer{Err: ErrAlreadyEnqueued}
	case asked != entry.Span(r.TTL.Truncate(time.Millisecond)):
		return Answer{Err: ErrKeyReused}
	}
	return Answer{Queued: true}
}

// adopt writes a session's ticket again, with this peer as the one that claims for it.
// A peer that undoes its write of the ticket later does not purge an adopted ticket.
func (p *enqueued) adopt(t *rules.Ticket, then func()) {
	if p.self.revision == 0 || p.view.Expiring(t.Key, p.now) {
		p.after(failurePause, then)
		return
	}
	value := t.Value
	value.Peer, value.Place = p.self.id, t.Place
	p.writes.put(p.value(t.Key, value, t.Revision, rules.EnqueuedLife), func(r resolution) {
		if r.result == unknown {
			p.after(failurePause, then)
		} else {
			then()
		}
	})
}

// promote starts a borrow for each enqueued ticket whose turn it is, if it is this
// peer's part to claim for it.
func (p *enqueued) promote(pool *rules.Pool) {
	if p.stopping || p.self.revision == 0 {
		return
	}
	if ps := p.byID[pool.ID]; ps != nil && len(ps.promoting) > 0 {
		ps.mark() // for dropPromotions
	}
	for _, t := range pool.Able() {
		if !t.Value.Enqueued() || !p.view.Promotes(t, p.self.id, p.now) {
			continue
		}
		ps := p.of(pool.ID)
		if ps.promoting[t.Place] != nil {
			continue
		}
		b := p.list(&borrow{
			p: p.pools, purpose: byTicket{}, pool: ps, phase: waiting, generation: t.Value.Generation,
			wish: wish{
				lease: t.Value.Lease, ttl: t.Value.TTL.Duration(), session: t.Key.Session, nonce: t.Value.Nonce, terms: pool.Terms(),
				request: t.Value.Request, label: t.Value.Label,
			},
			ticket: ticket{key: t.Key, place: t.Place},
		})
		put(&ps.promoting, t.Place, b)
		ps.mark()
	}
}

// byEnqueue is the purpose of the borrow for a call that leaves its session's ticket in the
// line, and is answered.
type byEnqueue struct {
	byCall
	again func() // starts the call again
}

func (byEnqueue) enqueued() bool { return true }

func (e byEnqueue) ticketFor(b *borrow) (key entry.Key, value *entry.TicketValue) {
	key = rules.EnqueuedKey(b.pool.id, b.session)
	if _, taken := b.p.view.Latest(key); taken {
		if t := b.p.view.Pool(b.pool.id).TicketAt(key); t == nil || !t.Value.Spent && t.Stands() {
			b.callers = nil // enqueue decides again, in a current view
			b.finish(Answer{})
			e.again()
			return key, nil
		}
	}
	return key, &entry.TicketValue{
		Lease: b.lease, Generation: b.generation, Peer: b.p.self.id, TTL: entry.Span(b.ttl), Nonce: b.nonce, Wait: entry.Span(rules.EnqueuedLife),
		Request: b.request, Label: b.label,
	}
}

func (byEnqueue) admitted(b *borrow) { b.finish(Answer{Queued: true}) }

func (byEnqueue) ended(b *borrow, was phase, a Answer) {
	if a.Err == nil && was != joining { // its ticket stays in the line
		delete(b.pool.tickets, b.ticket.key)
	} else {
		b.leaveLineAfter(was, a)
	}
}

// byTicket is the purpose of the borrow for an enqueued ticket, which any peer may claim for.
// It has no call.
type byTicket struct{ byCall }

func (byTicket) enqueued() bool { return true }

func (byTicket) goesOn(t *rules.Ticket) bool { return t != nil && t.Stands() }

func (byTicket) grant(b *borrow, s *rules.Slot) bool {
	b.p.view.EndAt(s, s.Revision, s.Granted.Add(b.ttl))
	b.finish(Answer{})
	return true
}

func (byTicket) ended(b *borrow, _ phase, _ Answer) { delete(b.pool.promoting, b.ticket.place) }
