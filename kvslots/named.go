package kvslots

import (
	"errors"
	"slices"
	"time"

	"github.com/kvslots/kvslots/kvslots/internal/entry"
	"github.com/kvslots/kvslots/kvslots/internal/rules"
)

// seat decides about those whose ticket has just come to stand in the line of a
// named pool: whether it is a good one, and who may go.
func (b *bucket) seat(lp *local, p *rules.Pool) {
	var undecided []*borrow
	for len(lp.fresh) > 0 {
		op := lp.fresh[0]
		t := p.Ticket(op.ticket)
		switch {
		case op.over || op.manner == waits && lp.waiting[op.ticket] != op:
		case op.manner == waits && op.name.session != b.self.id && b.self.revision != 0: // its presence is gone
			delete(lp.waiting, op.ticket)
			b.dropTicket(lp, op)
			b.join(lp, op)
		case t == nil && op.manner == enqueues: // its session has ended
			op.ticket = 0
			lp.queue = append(lp.queue, op)
		case t == nil:
		case t.Unsure() && !b.world.Exact():
			undecided = append(undecided, op)
			b.wantExactFor(lp.id)
		case t.Unsure() && !p.Agreed(): // who was first cannot be known: it comes again
			delete(lp.waiting, op.ticket)
			op.outlived = op.ticket
			b.dropTicket(lp, op)
			lp.queue = append(lp.queue, op)
		case t.Void():
			b.finish(lp, op, nil, ErrLimitMismatch)
		case op.manner == enqueues:
			op.ticket = 0 // it stays
			b.finish(lp, op, nil, nil)
		default:
			if b.world.Exact() {
				op.sawFull = op.sawFull || (p.Full() && !p.InDoubt(b.now()))
			}
			if op.expired {
				b.refuseLater(lp, op)
			}
		}
		lp.fresh = lp.fresh[1:] // only now: a pool that nobody is at is forgotten
	}
	lp.fresh = undecided
}

// claimsUnderOtherTerms tells whether this peer has claimed for somebody else
// under other terms than the borrower's, and the view does not know yet.
func (lp *local) claimsUnderOtherTerms(op *borrow) bool {
	if !op.named() {
		return false
	}
	for other := range lp.claims {
		if other.incarnation != op.naming.Terms() {
			return true
		}
	}
	return false
}

// overCaps tells which cap forbids a borrower of a named pool to go on.
func (b *bucket) overCaps(lp *local, p *rules.Pool, op *borrow, free bool) error {
	if !op.named() || op.manner == promotes {
		return nil
	}
	if most := b.cfg.MaxLocks; most > 0 && !p.Registered() && b.world.Named()+b.namesToCome(lp) >= most {
		return ErrMaxLocks
	}
	if most := b.cfg.MaxWaiters; most > 0 && !free && op.joins() && len(lp.flight.Purges) == 0 &&
		p.Waiting()+lp.flight.Joining >= most {
		return ErrMaxWaiters
	}
	return nil
}

// namesToCome counts the other named pools that nobody held, and that this peer
// is claiming in.
func (b *bucket) namesToCome(self *local) (n int) {
	for lp := range b.claiming {
		if lp == self || !lp.keyed || len(lp.flight.Claims) == 0 {
			continue
		}
		if p := b.world.Pool(lp.id); p == nil || !p.Registered() {
			n++
		}
	}
	return n
}

// promote claims for the enqueued tickets whose turn it is. Any peer may do so.
// One does: the peer where the session enqueued; if that has gone, the one with
// the lowest name; and if that does not, the next.
func (b *bucket) promote(p *rules.Pool) {
	if p == nil || !b.loaded {
		return
	}
	if lp := b.locals[p.ID]; lp != nil {
		for ticket, op := range lp.promoting {
			if t := p.Ticket(ticket); lp.waiting[ticket] == op && (t == nil || !t.Stands()) {
				b.finish(lp, op, nil, ErrNoSlot)
			}
		}
	}
	for _, t := range p.Able() {
		if !t.Value.Enqueued() || t.Doubtful(b.now()) || !b.promotes(t) {
			continue
		}
		lp := b.local(p.ID)
		if lp.promoting[t.Revision] != nil {
			continue
		}
		op := &borrow{
			manner: promotes, pool: p.ID, hash: t.Value.Lease, ttl: t.Value.TTL.Duration(),
			naming: t.Value.Naming, session: t.Value.Session, incarnation: t.Value.Incarnation, confirmed: true,
			ticket: t.Revision, promoted: t.Revision, done: make(chan struct{}),
		}
		lp.keyed = true
		put(&lp.promoting, t.Revision, op)
		put(&lp.waiting, t.Revision, op)
		b.dirty[p.ID] = struct{}{}
	}
}

// promotes tells whether it is for this peer to claim for a ticket.
func (b *bucket) promotes(t *rules.Ticket) bool {
	self, author := b.self.id, t.Value.Peer
	if author == self {
		return true
	}
	rank := 0 // of this peer among those who are there
	if s := b.world.Session(author); s != nil && s.Present {
		rank = 1
	}
	b.world.Peers(func(s *rules.Session) bool {
		if s.ID != author && slices.Compare(s.ID[:], self[:]) < 0 {
			rank++
		}
		return true
	})
	return t.AbleFor(b.now()) >= promoteGrace*time.Duration(rank)
}

// enqueuedBefore tells whether a session has enqueued for a named pool, and may
// yet wait for it. It notes what the new ticket has to be written over.
func (b *bucket) enqueuedBefore(op *borrow) bool {
	state := b.stateOfEnqueued(op.pool, op.session)
	if state.ticket != 0 {
		op.ticketStood = state.ticket
	}
	if state.standing == queued && (state.doubtful || state.ticket == op.outlived) {
		return false // it was made sure of before; the claim may be the borrower's own
	}
	return state.standing == queued || state.standing == served
}

// ticketOfSession is the key of a client session's ticket: it has one in a pool.
func ticketOfSession(pool, session entry.Hash) entry.Key {
	return entry.Key{Kind: entry.Ticket, Pool: pool, Session: session}
}

// consume purges the ticket of a session that has been told what became of it.
func (b *bucket) consume(pool, session entry.Hash) {
	t := ticketAt(b.world.Pool(pool), ticketOfSession(pool, session))
	if t == nil {
		return
	}
	key, revision := t.Key, t.Revision
	b.releases++
	b.send(purge(key, revision, 0), func(a ack) {
		b.mu.Lock()
		defer b.mu.Unlock()
		b.releases--
		if a.err == nil || errors.Is(a.err, errGone) {
			return
		}
		// Whatever is there now is looked at when the view has reached it.
		b.put(&question{revision: max(a.revision, 1), loose: true, done: make(chan struct{}), try: func() bool {
			if s := b.stateOfEnqueued(pool, session); s.standing == absent || s.standing == spent {
				b.consume(pool, session)
			}
			return true
		}})
	})
}

func ticketAt(p *rules.Pool, key entry.Key) *rules.Ticket {
	if p == nil {
		return nil
	}
	return p.TicketAt(key)
}
