package kvslots

import (
	"time"

	"github.com/kvslots/kvslots/kvslots/internal/rules"
)

// refuseGrace is how long a borrower who will not wait may yet be kept, while a
// free permit belongs to somebody in the line who is slow.
const refuseGrace = 1500 * time.Millisecond

// dismiss ends those whose pool was deleted while they were at it. That a pool
// is not there at all is believed of an exact view only. For those of whom it
// is not certain that they came before the deletion, everything begins anew.
func (b *bucket) dismiss(lp *local, p *rules.Pool) {
	var incarnation uint64
	if p != nil {
		incarnation = p.Incarnation()
	}
	lp.undecided = incarnation == 0 && !b.world.Exact() && len(lp.waiting)+len(lp.claims) > 0
	if lp.undecided {
		b.wantExactFor(lp.id)
	}
	if lp.undecided || (incarnation != 0 && lp.incarnation == incarnation) {
		return
	}
	lp.incarnation = incarnation
	for _, op := range lp.all() {
		switch {
		case op.over || op.incarnation == 0 || op.incarnation == incarnation:
		case op.confirmed:
			b.finish(lp, op, nil, ErrNoPool)
		case lp.waiting[op.ticket] == op:
			delete(lp.waiting, op.ticket)
			b.dropTicket(lp, op)
			b.anew(lp, op)
		}
	}
}

// review has dismiss look at a pool's borrowers once more.
func (b *bucket) review(lp *local) {
	lp.incarnation = 0
	b.dirty[lp.id] = struct{}{}
}

// anew sends a borrower back to the queue.
func (b *bucket) anew(lp *local, op *borrow) {
	if _, refusing := lp.refusing[op]; refusing {
		delete(lp.refusing, op)
		b.drop(op.question)
	}
	op.incarnation = 0
	lp.queue = append(lp.queue, op)
}

// obstacle is why a borrower cannot have the pool as it is now: because it is
// not registered, or another than the one that the borrower came for; or, if it
// is a named one, because it is in use under other terms.
func (b *bucket) obstacle(op *borrow, p *rules.Pool) error {
	switch {
	case !op.session.IsZero() && !b.alive(op.session):
		return ErrSessionGone
	case op.named():
		op.incarnation = op.naming.Terms()
		if p != nil && p.Registered() && p.Incarnation() != op.incarnation {
			return ErrLimitMismatch
		}
		return nil
	case p == nil || !p.Registered() || (op.confirmed && op.incarnation != p.Incarnation()):
		return ErrNoPool
	}
	op.incarnation = p.Incarnation()
	return nil
}

// refuseLater refuses a borrower as soon as it is certain that there is nothing
// for it.
func (b *bucket) refuseLater(lp *local, op *borrow) {
	put(&lp.refusing, op, struct{}{})
	op.refuseBy = b.now().Add(refuseGrace)
	op.question = &question{done: make(chan struct{}), try: func() bool { return b.refuse(lp, op) }}
	b.put(op.question)
}

// refuse decides about a borrower for whom there seemed to be nothing, at an
// instant at which the view is exact and as new as the borrower.
func (b *bucket) refuse(lp *local, op *borrow) bool {
	if _, still := lp.refusing[op]; op.over || !still {
		return true
	}
	p := b.world.Pool(lp.id)
	if op.named() {
		p = b.world.Ensure(lp.id)
	}
	if err := b.obstacle(op, p); err != nil {
		if err == ErrLimitMismatch && (p.InDoubt(b.now()) || p.Disputed()) && b.now() <= op.refuseBy {
			return false // who has the terms for himself is not decided
		}
		b.finish(lp, op, nil, err)
		return true
	}
	op.confirmed = true
	if b.now() >= lp.paused && b.self.revision != 0 && !lp.claimsUnderOtherTerms(op) {
		var t *rules.Ticket
		if op.ticket != 0 {
			t = p.Ticket(op.ticket)
		}
		if position, ok := p.Choose(t, &lp.flight, op.count(p)); ok {
			return b.take(lp, p, op, position)
		}
	}
	if op.joins() {
		delete(lp.refusing, op) // it came before the pool was known here
		b.join(lp, op)
		return true
	}
	if (p.InUse() >= op.count(p) && !p.InDoubt(b.now())) || b.now() > op.refuseBy {
		b.finish(lp, op, nil, ErrNoSlot)
		return true
	}
	return false
}
