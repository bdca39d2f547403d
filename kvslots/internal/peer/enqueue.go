package peer

import (
	"time"

	"github.com/kvslots/kvslots/kvslots/internal/entry"
	"github.com/kvslots/kvslots/kvslots/internal/rules"
)

// enqueue starts the borrow of an Enqueue, once it is certain that the session has not
// enqueued before.
func (p *pools) enqueue(c *call, r Enqueue) {
	p.whenCurrent(c, func() {
		t, s := p.view().EnqueuedIn(p.view().Pool(r.Pool), r.Session)
		switch again := func() { p.enqueue(c, r) }; {
		case !p.view().Alive(r.Session):
			c.answer(Answer{Err: ErrSessionGone})
		case s != nil && !s.Serves(t): // no caller was answered
			p.discard(rules.SlotKey(r.Pool, s.Position), s.Revision, func(*write) { again() })
		case s != nil && (s.Value.Ticket != 0 || s.Value.Request != r.Request || r.Request.IsZero()):
			c.answer(r.repeated(s.Value.Request, s.Value.Asked))
		case s == nil && t != nil && t.Stands() && t.Server() != p.self():
			p.adopt(t, again)
		case s == nil && t != nil && t.Stands():
			c.answer(r.repeated(t.Value.Request, t.Value.TTL))
		default:
			b := p.start(p.of(r.Pool), &wish{
				lease: r.Lease, ttl: r.TTL, session: r.Session, nonce: r.Nonce, terms: r.terms(), request: r.Request,
				label: r.Label,
			})
			b.again = again
			b.add(c, nil, 0).current = true
		}
	})
}

// repeated returns the answer to an Enqueue of a session that has enqueued before. If it is a
// repeat, by its request key, it is answered as before.
func (r Enqueue) repeated(request entry.Hash, asked entry.Span) Answer {
	switch {
	case r.Request.IsZero() || request != r.Request:
		return Answer{Err: ErrAlreadyEnqueued}
	case asked != entry.Span(r.TTL.Truncate(time.Millisecond)):
		return Answer{Err: ErrKeyReused}
	}
	return Answer{Queued: true}
}

// promote has the pool look at its line if this peer has to claim for an enqueued ticket.
func (p *pools) promote(pool *rules.Pool) {
	for _, t := range pool.Able() {
		if t.Value.Enqueued() && t.Promotes(p.self(), p.now()) {
			p.of(pool.ID).mark()
			return
		}
	}
}
