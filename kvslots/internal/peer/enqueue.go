package peer

import (
	"fmt"
	"time"

	"github.com/kvslots/kvslots/kvslots/internal/entry"
	"github.com/kvslots/kvslots/kvslots/internal/rules"
)

// enqueued serves what sessions enqueue.
type enqueued struct {
	*pools
	awaits map[sessionPool][]*await
}

func newEnqueued(p *pools) *enqueued {
	return &enqueued{pools: p, awaits: map[sessionPool][]*await{}}
}

type sessionPool struct{ pool, session entry.Hash }

// enqueue starts the borrow of an Enqueue, once it is certain that the session has not
// enqueued before.
func (p *enqueued) enqueue(c *call, r Enqueue) {
	p.whenCurrent(c, func() {
		e := p.view().EnqueuedIn(p.view().Pool(r.Pool), r.Session)
		switch again := func() { p.enqueue(c, r) }; {
		case !p.view().Alive(r.Session):
			c.answer(Answer{Err: ErrSessionGone})
		case e.Status == rules.Unserved: // no caller was answered
			p.discard(rules.SlotKey(r.Pool, e.Slot.Position), e.Slot.Revision, func(*write) { again() })
		case e.Status == rules.Queued && e.Ticket.Value.Peer != p.self():
			p.adopt(e.Ticket, again)
		case e.Status == rules.Queued || e.Status == rules.Served && (e.Slot.Value.Ticket != 0 || e.Slot.Value.Request != r.Request || r.Request.IsZero()):
			c.answer(r.repeated(e))
		default:
			b := p.start(p.of(r.Pool), wish{
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
	if !p.isPresent() || p.view().Expiring(t.Key, p.now()) {
		p.after(nil, failurePause, then)
		return
	}
	value := t.Value
	value.Peer, value.Place = p.self(), t.Place
	p.put(p.value(t.Key, &value, t.Revision, rules.EnqueuedLife), func(w *write) {
		if w.unknown() {
			p.after(nil, failurePause, then)
		} else {
			then()
		}
	})
}

// promote has the pool look at its line if this peer has to claim for an enqueued ticket.
func (p *enqueued) promote(pool *rules.Pool) {
	for _, t := range pool.Able() {
		if t.Value.Enqueued() && p.view().Promotes(t, p.self(), p.now()) {
			p.of(pool.ID).mark()
			return
		}
	}
}

// remains describes the pools with pending work.
func (p *enqueued) remains() (list []string) {
	for _, ps := range p.byID {
		awaits := 0
		for key, of := range p.awaits {
			if key.pool == ps.id {
				awaits += len(of)
			}
		}
		list = append(list, fmt.Sprintf("pool %s: queue %d tickets %d users %d awaits %d", ps.id, len(ps.queue), len(ps.tickets), ps.users, awaits))
	}
	return list
}
