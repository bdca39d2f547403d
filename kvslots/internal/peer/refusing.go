package peer

import (
	"time"

	"github.com/kvslots/kvslots/kvslots/internal/rules"
)

// refuseGrace is how long a borrow that will not wait may yet be kept, while a free
// permit belongs to a ticket whose peer is slow.
const refuseGrace = 1500 * time.Millisecond

// refuseLater refuses a borrow as soon as it is certain that there is nothing for
// it: in a view that is exact, and as new as the borrow.
func (b *borrow) refuseLater() {
	b.to(refusing)
	if b.refuseBy == 0 {
		b.refuseBy = b.p.now.Add(refuseGrace)
	}
	b.pool.refusing = byArrival(b.pool.refusing, b) // the first to come is the first to have what there is after all
	if b.current {
		b.pool.mark()
		return
	}
	b.p.ask(b.call, func() {
		b.current = true
		b.pool.mark()
	})
}

// reviewRefusals decides about the borrows that are to be refused, and can be.
func (ps *poolState) reviewRefusals() {
	if len(ps.refusing) == 0 {
		return
	}
	list := ps.refusing
	ps.refusing = nil
	var stay []*borrow
	for _, b := range list {
		switch {
		case b.phase != refusing:
		case b.takeAfterAll():
		case !b.current:
			stay = append(stay, b)
		case !ps.p.view.Exact():
			stay = append(stay, b)
			ps.wantExact()
		default:
			b.review()
			if b.phase == refusing {
				stay = append(stay, b)
			}
		}
	}
	ps.refusing = append(stay, ps.refusing...)
}

// review decides about one, at an instant at which the view is exact and as new as
// the borrow.
func (b *borrow) review() {
	pool := b.p.view.Pool(b.pool.id)
	switch err := b.obstacle(pool); {
	case err == ErrLimitMismatch:
		b.reviewTerms(pool)
		return
	case err != nil:
		b.finish(Answer{Err: err})
		return
	case b.named() && (!pool.Registered() || pool.Count() == 0):
		b.comeAgain()
		return
	}
	b.confirmed = true
	if b.pool.mayChoose() && b.p.self.revision != 0 {
		if _, ok := b.choose(pool); ok {
			return // it waits for what is to be purged there
		}
	}
	switch {
	case (b.waits || b.kind == forEnqueue) && !b.ticket.stands(): // it came before the pool was known here
		b.comeAgain()
	case pool.Full() && !pool.InDoubt(b.p.now), b.p.now >= b.refuseBy && b.pool.mayChoose():
		b.finish(Answer{Err: ErrNoSlot})
	default:
		b.pool.markLater()
	}
}

// takeAfterAll claims a slot that has become free. It returns false if there is none.
func (b *borrow) takeAfterAll() bool {
	pool := b.p.view.Pool(b.pool.id)
	if !b.pool.mayChoose() || b.p.self.revision == 0 || b.obstacle(pool) != nil || pool.Count() == 0 {
		return false
	}
	position, ok := b.choose(pool)
	return ok && b.take(pool, position)
}

// choose is the position that the borrow may claim.
func (b *borrow) choose(pool *rules.Pool) (position int, ok bool) {
	var t *rules.Ticket
	if b.ticket.stands() {
		t = pool.Ticket(b.ticket.place)
	}
	return pool.Choose(t, &b.pool.flight)
}
