package peer

import (
	"maps"
	"slices"

	"github.com/kvslots/kvslots/kvslots/internal/rules"
)

func (r Enqueue) begin(p *Peer, c *call) {
	c.useSession(r.Session)
	r.enqueue(c)
}

// enqueue starts the borrow of an Enqueue, once it is certain that the session has not
// enqueued before.
func (r Enqueue) enqueue(c *call) {
	c.p.reads.whenCurrent(c, func() {
		e := c.p.view.EnqueuedIn(c.p.view.Pool(r.Pool), r.Session, c.p.now)
		switch again := func() { r.enqueue(c) }; {
		case !c.p.view.Alive(r.Session):
			c.answer(Answer{Err: ErrSessionGone})
		case e.Status == rules.Doubtful:
			c.after(failurePause, again)
		case e.Status == rules.Unserved: // no caller was answered
			c.p.writes.release(rules.SlotKey(r.Pool, e.Slot.Position), e.Slot.Revision, func(Ack) { again() })
		case e.Status == rules.Queued && e.Ticket.Value.Peer != c.p.self.id:
			c.p.adopt(e.Ticket, again)
		case e.Status == rules.Queued || e.Status == rules.Served:
			c.answer(Answer{Err: ErrAlreadyEnqueued})
		default:
			c.p.start(&borrow{
				p: c.p, call: c, pool: c.p.pools.of(r.Pool), kind: forEnqueue, current: true, again: func() { r.enqueue(c) },
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
	p.writes.put(p.value(t.Key, value, t.Revision, rules.EnqueuedLife), func(f resolution) {
		if f.result == unknown {
			p.after(failurePause, then)
		} else {
			then()
		}
	})
}

// promote starts a borrow for each enqueued ticket whose turn it is, if it is this
// peer's part to claim for it.
func (p *Peer) promote(pool *rules.Pool) {
	if p.watch.mode != live || p.closing || p.self.revision == 0 {
		return
	}
	if ps := p.pools.byID[pool.ID]; ps != nil && len(ps.promoting) > 0 {
		ps.mark() // for dropPromotions
	}
	for _, t := range pool.Able() {
		if !t.Value.Enqueued() || !p.view.Promotes(t, p.self.id, p.now) {
			continue
		}
		if t.Doubtful() {
			// A ticket that still stands when the view has reached a barrier was not
			// served. An exact view is not enough: the entry that overwrote a skipped
			// claim need not say which ticket the claim was for.
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
			ticket: ticket{key: t.Key, revision: t.Revision, place: t.Place},
		}
		ps.borrows++
		put(&ps.promoting, t.Place, b)
		ps.mark()
	}
}

// promotions returns the places of the tickets that promote has begun to claim for.
func (ps *poolState) promotions() []uint64 {
	if len(ps.promoting) == 0 { // as in nearly all pools: do not allocate
		return nil
	}
	return slices.Sorted(maps.Keys(ps.promoting))
}

// dropPromotions ends the borrows of enqueued tickets that do not stand any more.
func (ps *poolState) dropPromotions(pool *rules.Pool) {
	for _, place := range ps.promotions() {
		b, t := ps.promoting[place], pool.Ticket(place)
		if b.phase == waiting && (t == nil || !t.Stands()) {
			b.finish(Answer{Err: ErrNoSlot})
		}
	}
}
