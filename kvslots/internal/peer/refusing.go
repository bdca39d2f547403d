package peer

import (
	"time"

	"github.com/kvslots/kvslots/kvslots/internal/rules"
)

// refuseGrace is how long the refusal of a borrow may wait in a view that is live and as
// new as the borrow, while a claim is in doubt, or a free permit belongs to a ticket whose
// peer is slow.
const refuseGrace = 1500 * time.Millisecond

// refuseLater moves a borrow to phase refusing. reviewRefusals decides about it when
// the view is live and as new as the borrow.
func (b *borrow) refuseLater() {
	b.to(refusing)
	b.enlist()
	if !b.current {
		b.p.reads.whenCurrent(b.call, func() {
			b.current = true
			b.pool.mark()
		})
	}
}

// reviewRefusals decides about the borrows in phase refusing, in order of arrival. They may
// still claim a slot that has become free.
func (ps *poolState) reviewRefusals() {
	for _, b := range ps.queue {
		switch {
		case b.phase != refusing || b.claimFreed() || !b.current:
		default:
			b.review()
		}
	}
}

// review decides about one borrow, in a view that is live and as new as the borrow.
func (b *borrow) review() {
	if b.refuseBy == 0 { // counted from here, since the view may have been late until now
		b.refuseBy = b.p.now.Add(refuseGrace)
	}
	pool := b.p.view.Pool(b.pool.id)
	if s := pool.Requested(b.request); s != nil {
		b.resume(pool, s)
		return
	}
	switch err := b.obstacle(pool); {
	case err == ErrLimitMismatch:
		b.p.names.reviewTerms(b, pool)
		return
	case err == ErrMaxLocks && !b.p.view.NamesReach(b.p.cfg.MaxLocks, 0): // a claim that opens a name may come to nothing
		b.pool.markLater()
		return
	case isShare(err) && b.overShare(false) == nil: // so may an entry that is being written
		b.pool.markLater()
		return
	case err != nil:
		b.finish(Answer{Err: err})
		return
	case b.named() && !pool.Exists(), pool.Closing():
		b.backToQueue()
		return
	}
	b.confirmed = true
	if b.pool.mayChoose() && b.p.self.revision != 0 {
		if _, ok := b.choose(pool); ok {
			return // claimFreed claims the position when it is swept, or the doubt below it is over
		}
	}
	switch {
	case b.joins() && !b.ticket.stands(): // the borrow came before the view showed the pool
		b.backToQueue()
	case pool.Full() && !pool.InDoubt(b.p.now), b.p.now >= b.refuseBy && b.pool.mayChoose() && b.isShort(pool):
		b.finish(Answer{Err: ErrNoSlot})
	default:
		b.pool.markLater()
	}
}

// claimFreed claims a slot that has become free. It returns false if there is none.
func (b *borrow) claimFreed() bool {
	pool := b.p.view.Pool(b.pool.id)
	if !b.pool.mayChoose() || b.p.self.revision == 0 || b.obstacle(pool) != nil || pool.Count() == 0 || pool.Requested(b.request) != nil {
		return false
	}
	position, ok := b.choose(pool)
	return ok && b.tryClaim(pool, position)
}

func (b *borrow) choose(pool *rules.Pool) (position int, ok bool) {
	return pool.Choose(pool.Ticket(b.ticket.place), &b.pool.flight)
}

// isShort reports whether there is no permit for the borrow. One that may not be claimed yet,
// since the peer has no presence, is no reason to refuse.
func (b *borrow) isShort(pool *rules.Pool) bool {
	_, ok := b.choose(pool)
	return !ok
}
