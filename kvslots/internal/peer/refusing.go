package peer

import (
	"slices"
	"time"

	"github.com/kvslots/kvslots/kvslots/internal/rules"
)

// refuseGrace is how long a borrow that will not wait may yet be kept, while a free
// permit belongs to a ticket whose peer is slow.
const refuseGrace = 1500 * time.Millisecond

// refuseLater refuses a borrow as soon as it is certain that there is nothing for
// it: in a view that is exact, and as new as the borrow.
func (p *Peer) refuseLater(b *borrow) {
	p.to(b, refusing)
	if b.refuseBy == 0 {
		b.refuseBy = p.now.Add(refuseGrace)
	}
	list := b.pool.refusing // the first to come is the first to have what there is after all
	i := len(list)
	for i > 0 && list[i-1].call.id > b.call.id {
		i--
	}
	b.pool.refusing = slices.Insert(list, i, b)
	if b.current {
		p.mark(b.pool)
		return
	}
	p.ask(b.call, func() {
		b.current = true
		p.mark(b.pool)
	})
}

// reviewRefusals decides about the borrows that are to be refused, and can be.
func (p *Peer) reviewRefusals(ps *poolState) {
	if len(ps.refusing) == 0 {
		return
	}
	list := ps.refusing
	ps.refusing = nil
	var stay []*borrow
	for _, b := range list {
		switch {
		case b.phase != refusing:
		case !b.current:
			stay = append(stay, b)
		case !p.world.Exact():
			stay = append(stay, b)
			p.wantExactFor(ps)
		default:
			p.review(b)
			if b.phase == refusing {
				stay = append(stay, b)
			}
		}
	}
	ps.refusing = append(stay, ps.refusing...)
}

// review decides about one, at an instant at which the view is exact and as new as
// the borrow.
func (p *Peer) review(b *borrow) {
	pool := p.world.Pool(b.pool.id)
	switch err := p.obstacle(b, pool); {
	case err == ErrLimitMismatch:
		p.reviewTerms(b, pool)
		return
	case err != nil:
		p.finish(b, Answer{Err: err})
		return
	case b.named() && (!pool.Registered() || pool.Count() == 0):
		p.returnToQueue(b)
		return
	}
	b.confirmed = true
	if p.mayChoose(b.pool) && p.self.revision != 0 {
		var t *rules.Ticket
		if b.ticket.stands() {
			t = pool.Ticket(b.ticket.place)
		}
		if position, ok := pool.Choose(t, &b.pool.flight); ok {
			p.take(b, pool, position)
			return
		}
	}
	switch {
	case (b.waits || b.kind == forEnqueue) && !b.ticket.stands(): // it came before the pool was known here
		p.returnToQueue(b)
	case pool.Full() && !pool.InDoubt(p.now), p.now >= b.refuseBy && p.mayChoose(b.pool):
		p.finish(b, Answer{Err: ErrNoSlot})
	default:
		p.markLater(b.pool)
	}
}

// returnToQueue sends a borrow that is not to be refused after all to the end of
// the queue.
func (p *Peer) returnToQueue(b *borrow) {
	p.to(b, arrived)
	b.pool.queue = append(b.pool.queue, b)
	p.mark(b.pool)
}
