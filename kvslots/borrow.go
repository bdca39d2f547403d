package kvslots

import (
	"context"
	"slices"
	"time"

	"github.com/google/uuid"

	"github.com/kvslots/kvslots/kvslots/internal/entry"
	"github.com/kvslots/kvslots/kvslots/internal/rules"
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
	naming      entry.Naming // of a named pool
	session     entry.Hash   // the client session that borrows, if it is one
	owner       entry.Hash   // of a lock without a session; tells waiters apart in the stats
	manner      manner
	incarnation uint64 // of the pool, once known
	confirmed   bool   // the pool had that incarnation at an instant after the borrower came

	ticketKey   entry.Key
	ticket      uint64 // its place in the line; 0 when it has none
	ticketAcked uint64 // the same, once acknowledged
	ticketStood uint64 // what is known to stand under the key of an enqueued ticket
	outlived    uint64 // an enqueued ticket that it took out of the line itself
	promoted    uint64 // the enqueued ticket that is claimed for
	name        ticketName
	claim       claim
	sawFull     bool          // there was an instant, since it came, without a free slot
	expired     bool          // its wait is over
	refuseBy    rules.Instant // when it is refused at the latest
	failing     rules.Instant // since when its writes fail; 0 while they do not
	question    *question

	unsure  int       // claims that were withdrawn though others may have taken them for good
	tried   time.Time // when the first claim was sent
	cleared time.Time // when the last of those that were withdrawn was gone
	over    bool
	done    chan struct{}
	result  *Lease
	err     error
}

// manner is what a borrower does when there is nothing for it.
type manner int

// The manners.
const (
	waits    manner = iota // it waits in line, for as long as it said
	enqueues               // it leaves its session's ticket in the line, and goes
	promotes               // it is nobody: the peer claims for an enqueued ticket
)

// named tells whether the pool is a named one.
func (op *borrow) named() bool { return op.naming.Name != "" }

// count is the number of slots that the borrower reckons with.
func (op *borrow) count(p *rules.Pool) int {
	if op.named() {
		return op.naming.Limit
	}
	return p.Count()
}

// joins tells whether the borrower stands in line if it has to.
func (op *borrow) joins() bool { return op.manner == enqueues || op.wait > 0 && !op.expired }

// claim is a borrow's latest attempt at a slot.
type claim struct {
	position  int
	stood     uint64 // the slot's revision in the view when it was sent, which it is written over
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
	lp.keyed = op.named()
	b.enter(op)
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
	b.leaveSession(op)
	if op.manner == promotes {
		delete(lp.promoting, op.promoted)
		delete(lp.waiting, op.promoted)
	} else if op.ticket != 0 {
		if op.manner == waits {
			delete(lp.waiting, op.ticket)
		}
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
