package kvslots

import (
	"slices"

	"github.com/kvslots/kvslots/kvslots/internal/entry"
	"github.com/kvslots/kvslots/kvslots/internal/rules"
)

// advance takes everybody in a pool as far as the view allows.
func (b *bucket) advance(lp *local) {
	if !b.loaded {
		return
	}
	p := b.world.Pool(lp.id)
	if lp.keyed {
		p = b.world.Ensure(lp.id)
		b.observe(lp, p)
		b.seat(lp, p)
	} else {
		b.observe(lp, p)
		b.dismiss(lp, p)
	}
	b.judge(lp, p)
	if b.world.Revision >= lp.held && b.now() >= lp.paused && b.self.revision != 0 {
		b.serveLine(lp, p)
		b.serveQueue(lp, p)
	}
	b.tidy(lp)
}

// observe notes which of the peer's own writes the view has reached.
func (b *bucket) observe(lp *local, p *rules.Pool) {
	for position, revision := range lp.flight.Purges {
		if s := slotOf(p, position); s == nil || s.Revision > revision {
			delete(lp.flight.Purges, position)
		}
	}
	for _, op := range slices.Clone(lp.joining) {
		if t := ticketOf(p, op); t != nil {
			b.stand(lp, p, op, t)
		} else if op.ticketAcked != 0 && op.ticketAcked <= b.world.Revision {
			b.unseated(lp, op)
		}
	}
}

// unseated is for a borrower whose ticket was purged before the view came to
// see it: with its pool, or with this peer's presence.
func (b *bucket) unseated(lp *local, op *borrow) {
	lp.joining = slices.DeleteFunc(lp.joining, func(other *borrow) bool { return other == op })
	lp.flight.Joining--
	b.freeName(lp, op.name, op.ticketAcked)
	if !op.over {
		lp.queue = append(lp.queue, op)
	}
}

// stand notes that a borrower's ticket is in the line.
func (b *bucket) stand(lp *local, p *rules.Pool, op *borrow, t *rules.Ticket) {
	lp.joining = slices.DeleteFunc(lp.joining, func(other *borrow) bool { return other == op })
	lp.flight.Joining--
	op.ticket, op.failing = t.Revision, 0
	if b.world.Exact() && p.Incarnation() == op.incarnation {
		op.confirmed = true
		op.sawFull = op.sawFull || (p.Full() && !p.InDoubt(b.now()))
	}
	switch {
	case op.over:
		b.dropTicket(lp, op)
	case op.named():
		if op.manner == waits {
			put(&lp.waiting, op.ticket, op)
		}
		lp.fresh = append(lp.fresh, op)
	case op.name.session != b.self.id && b.self.revision != 0: // its presence is gone
		b.dropTicket(lp, op)
		b.join(lp, op)
	default:
		if p.Incarnation() != op.incarnation {
			b.review(lp)
		}
		put(&lp.waiting, op.ticket, op)
		if op.expired {
			b.refuseLater(lp, op)
		}
	}
}

func ticketOf(p *rules.Pool, op *borrow) *rules.Ticket {
	if p == nil {
		return nil
	}
	if t := p.TicketAt(op.ticketKey); t != nil && t.Value.Lease == op.hash && t.Revision > op.name.revision {
		return t
	}
	return nil
}

func slotOf(p *rules.Pool, position int) *rules.Slot {
	if p == nil {
		return nil
	}
	return p.Slot(position)
}

func slotKey(pool entry.Hash, position int) entry.Key {
	return entry.Key{Kind: entry.Slot, Pool: pool, N: position}
}

// serveLine lets those claim whose turn it is.
func (b *bucket) serveLine(lp *local, p *rules.Pool) {
	if p == nil || len(lp.waiting) == 0 {
		return
	}
	for _, t := range p.Able() {
		op := lp.waiting[t.Revision]
		if op == nil {
			continue
		}
		position, ok := p.Choose(t, &lp.flight, op.count(p))
		if !ok || !b.take(lp, p, op, position) {
			return
		}
	}
}

// serveQueue decides about those who have just come, in their order.
func (b *bucket) serveQueue(lp *local, p *rules.Pool) {
	for len(lp.queue) > 0 {
		op := lp.queue[0]
		if b.obstacle(op, p) != nil {
			lp.queue = lp.queue[1:]
			b.refuseLater(lp, op)
			continue
		}
		if op.named() && lp.claimsUnderOtherTerms(op) {
			return // they are the terms in force when the view shows them
		}
		position, ok := p.Choose(nil, &lp.flight, op.count(p))
		if err := b.overCaps(lp, p, op, ok); err != nil {
			b.finish(lp, op, nil, err)
			continue
		}
		switch {
		case ok:
			if !b.take(lp, p, op, position) {
				return
			}
		case len(lp.flight.Purges) > 0:
			return // a slot is being freed
		case op.joins():
			lp.queue = lp.queue[1:]
			b.join(lp, op)
		default:
			lp.queue = lp.queue[1:]
			b.refuseLater(lp, op)
		}
	}
}
