package kvslots

import (
	"context"
	"errors"
	"slices"
	"time"

	"github.com/google/uuid"

	"github.com/kvslots/kvslots/kvslots/internal/entry"
	"github.com/kvslots/kvslots/kvslots/internal/rules"
)

const (
	// refuseGrace is how long a borrower who will not wait may yet be kept,
	// while a free permit belongs to somebody in the line who is slow.
	refuseGrace = 1500 * time.Millisecond
)

// borrow is one call of Borrow under way. It is always in exactly one place of
// its pool's local: the queue, joining, waiting, claims or refusing; and in
// both waiting and refusing when its time in line is over.
type borrow struct {
	lender      lender // of the lease, with the pool's id, for the lease's own use
	poolID      uuid.UUID
	pool        entry.Hash
	lease       uuid.UUID
	hash        entry.Hash // of the lease
	ttl, wait   time.Duration
	label       string
	incarnation uint64 // of the pool, once known
	confirmed   bool   // the pool had that incarnation at an instant after the borrower came

	ticketKey   entry.Key
	ticket      uint64 // its place in the line; 0 when it has none
	ticketAcked uint64 // the same, once acknowledged
	name        ticketName
	claim       claim
	sawFull     bool          // there was an instant, since it came, without a free slot
	expired     bool          // its wait is over
	refuseBy    rules.Instant // when it is refused at the latest
	failing     rules.Instant // since when its writes fail; 0 while they do not
	question    *question

	unsure  int       // claims that were withdrawn though others may have taken them for good
	cleared time.Time // when the last of them was gone
	over    bool
	done    chan struct{}
	result  *Lease
	err     error
}

// claim is a borrow's latest attempt at a slot.
type claim struct {
	position  int
	expected  uint64 // the revision written over
	stood     uint64 // the slot's revision in the view when it was sent
	revision  uint64 // once seen
	acked     uint64 // the same, once acknowledged
	sent      rules.Instant
	withdrawn bool // its purge is sent
	flying    bool // it is sent, and neither seen nor answered with a failure
	number    int  // of the attempt
}

// borrow waits for the outcome of one borrowing. The work is done by advance.
func (b *bucket) borrow(ctx context.Context, op *borrow) (*Lease, error) {
	op.done = make(chan struct{})
	b.mu.Lock()
	if b.closing {
		b.mu.Unlock()
		return nil, ErrClosed
	}
	lp := b.local(op.pool)
	lp.queue = append(lp.queue, op)
	b.advance(lp)
	b.follow()
	b.mu.Unlock()

	expiry := time.NewTimer(op.wait)
	defer expiry.Stop()
	limit := time.NewTimer(op.wait + patience)
	defer limit.Stop()
	if op.wait == 0 {
		expiry.Stop()
	}
	for {
		select {
		case <-op.done:
			return op.result, op.err
		case <-expiry.C:
			b.expire(op)
		case <-ctx.Done():
			return b.give(op, context.Cause(ctx))
		case <-limit.C:
			return b.give(op, ErrUnavailable)
		}
	}
}

// give ends a borrowing that its caller has given up, unless it has just ended.
func (b *bucket) give(op *borrow, why error) (*Lease, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if !op.over {
		b.finish(b.locals[op.pool], op, nil, why)
	}
	return op.result, op.err
}

// expire ends the wait of one who stands in the line: it is refused, at once
// when there has been an instant without a free slot. A claim under way may
// still come to something.
func (b *bucket) expire(op *borrow) {
	b.mu.Lock()
	defer b.mu.Unlock()
	lp := b.locals[op.pool]
	if op.over || op.expired {
		return
	}
	op.expired = true
	_, claiming := lp.claims[op]
	switch {
	case claiming:
	case op.sawFull:
		b.finish(lp, op, nil, ErrNoSlot)
	case op.ticket != 0:
		b.refuseLater(lp, op)
	}
	b.follow()
}

// finish ends a borrowing and lets go of all that it had.
func (b *bucket) finish(lp *local, op *borrow, lease *Lease, err error) {
	op.over, op.result, op.err = true, lease, err
	close(op.done)
	is := func(other *borrow) bool { return other == op }
	lp.queue = slices.DeleteFunc(lp.queue, is)
	delete(lp.refusing, op)
	if op.question != nil {
		b.drop(op.question)
	}
	if _, claiming := lp.claims[op]; claiming && lease == nil {
		b.unclaim(lp, op)
	}
	delete(lp.claims, op)
	if op.ticket != 0 {
		delete(lp.waiting, op.ticket)
		b.dropTicket(lp, op)
	}
	b.tidy(lp)
}

// unclaim takes back a claim that is void, or of somebody who has gone. One that
// is neither seen nor acknowledged yet is taken back when it is acknowledged.
func (b *bucket) unclaim(lp *local, op *borrow) {
	c := &op.claim
	revision := max(c.revision, c.acked)
	if revision == 0 || c.withdrawn {
		return
	}
	c.withdrawn = true
	s := slotOf(b.world.Pool(lp.id), c.position)
	if s == nil || s.Revision != revision || s.Verdict() != rules.Void {
		op.unsure++
	}
	b.release(slotKey(lp.id, c.position), revision, 0, func(uint64) { op.cleared = time.Now() })
	b.landed(lp, op)
}

// dropTicket takes a ticket out of the line; its name can be used again.
func (b *bucket) dropTicket(lp *local, op *borrow) {
	b.release(op.ticketKey, op.ticket, 0, b.freer(lp, op.name))
	op.ticket = 0
}

// advance takes everybody in a pool as far as the view allows.
func (b *bucket) advance(lp *local) {
	if !b.loaded {
		return
	}
	p := b.world.Pool(lp.id)
	b.observe(lp, p)
	b.dismiss(lp, p)
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
	case op.name.session != b.self.id && b.self.revision != 0: // its presence is gone
		b.dropTicket(lp, op)
		b.join(lp, op)
	default:
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
	if t := p.TicketAt(op.ticketKey); t != nil && t.Value.Lease == op.hash {
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

// dismiss ends those whose pool was deleted while they were at it. That a pool
// is not there at all is believed of an exact view only. For those of whom it
// is not certain that they came before the deletion, everything begins anew.
func (b *bucket) dismiss(lp *local, p *rules.Pool) {
	var incarnation uint64
	if p != nil {
		incarnation = p.Incarnation()
	}
	if incarnation == 0 && !b.world.Exact() {
		return
	}
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

// anew sends a borrower back to the queue.
func (b *bucket) anew(lp *local, op *borrow) {
	if _, refusing := lp.refusing[op]; refusing {
		delete(lp.refusing, op)
		b.drop(op.question)
	}
	op.incarnation = 0
	lp.queue = append(lp.queue, op)
}

// meets tells whether a borrower can have the pool as it is now: whether it is
// registered, and not another than the one that the borrower came for.
func (op *borrow) meets(p *rules.Pool) bool {
	if p == nil || !p.Registered() || (op.confirmed && op.incarnation != p.Incarnation()) {
		return false
	}
	op.incarnation = p.Incarnation()
	return true
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
		position, ok := p.Choose(t, &lp.flight)
		if !ok || !b.take(lp, p, op, position) {
			return
		}
	}
}

// serveQueue decides about those who have just come, in their order.
func (b *bucket) serveQueue(lp *local, p *rules.Pool) {
	for len(lp.queue) > 0 {
		op := lp.queue[0]
		if !op.meets(p) {
			lp.queue = lp.queue[1:]
			b.refuseLater(lp, op)
			continue
		}
		position, ok := p.Choose(nil, &lp.flight)
		switch {
		case ok:
			if !b.take(lp, p, op, position) {
				return
			}
		case len(lp.flight.Purges) > 0:
			return // a slot is being freed
		case op.wait > 0 && !op.expired:
			lp.queue = lp.queue[1:]
			b.join(lp, op)
		default:
			lp.queue = lp.queue[1:]
			b.refuseLater(lp, op)
		}
	}
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
	if !op.meets(p) {
		b.finish(lp, op, nil, ErrNoPool)
		return true
	}
	op.confirmed = true
	if b.now() >= lp.paused && b.self.revision != 0 {
		var t *rules.Ticket
		if op.ticket != 0 {
			t = p.Ticket(op.ticket)
		}
		if position, ok := p.Choose(t, &lp.flight); ok {
			return b.take(lp, p, op, position)
		}
	}
	if op.wait > 0 && !op.expired {
		delete(lp.refusing, op) // it came before the pool was known here
		b.join(lp, op)
		return true
	}
	if (p.Full() && !p.InDoubt(b.now())) || b.now() > op.refuseBy {
		b.finish(lp, op, nil, ErrNoSlot)
		return true
	}
	return false
}

// requeue is for a borrower whose claim came to nothing.
func (b *bucket) requeue(lp *local, p *rules.Pool, op *borrow) {
	delete(lp.claims, op)
	op.claim = claim{number: op.claim.number + 1} // its answer, if it is still to come, is for nobody
	switch {
	case op.over:
	case op.ticket != 0 && p != nil && p.Ticket(op.ticket) != nil:
		put(&lp.waiting, op.ticket, op)
		if op.expired {
			b.refuseLater(lp, op)
		}
	case op.ticket != 0: // its ticket went with an earlier presence
		op.ticket = 0
		fallthrough
	default:
		lp.queue = slices.Insert(lp.queue, 0, op)
	}
}

// failed deals with a write that was not written, or of which nothing is known.
// It returns false when the borrower was told so.
func (b *bucket) failed(lp *local, op *borrow, err error) bool {
	now := b.now()
	switch {
	case errors.Is(err, errConflict):
		op.failing = 0
		return true
	case errors.Is(err, errInFlight):
		b.pause(lp, conflictPause)
		return true
	case errors.Is(err, errUnknown), errors.Is(err, errGone):
	default:
		if op.failing == 0 {
			op.failing = now
		}
		if now-op.failing < rules.Instant(patience) {
			b.pause(lp, failurePause)
			return true
		}
	}
	b.finish(lp, op, nil, ErrUnavailable)
	return false
}

// pause keeps a pool's borrowers from writing for a while.
func (b *bucket) pause(lp *local, d time.Duration) {
	lp.paused = max(lp.paused, b.now().Add(d))
	time.AfterFunc(d+time.Millisecond, func() {
		b.mu.Lock()
		defer b.mu.Unlock()
		b.dirty[lp.id] = struct{}{}
		b.follow()
	})
}
