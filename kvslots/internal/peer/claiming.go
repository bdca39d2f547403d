package peer

import (
	"time"

	"github.com/kvslots/kvslots/kvslots/internal/entry"
	"github.com/kvslots/kvslots/kvslots/internal/rules"
)

// tryClaim claims a position for a borrow. It returns false if the claim has to wait: this
// position or a lower one is being freed, or this one has to be swept.
func (b *borrow) tryClaim(pool *rules.Pool, position int) bool {
	if b.p.writes.free(b.pool.id, position+1) {
		b.pool.markLater()
		return false
	}
	return b.sendClaim(pool.Slot(position), position, b.generation)
}

// sweep purges a value that holds no slot.
func (ps *poolState) sweep(s *rules.Slot) {
	if key := rules.SlotKey(ps.id, s.Position); !ps.p.writes.purges(key, s.Revision) {
		ps.p.writes.discard(key, s.Revision, nil)
	}
}

// sendClaim claims a position. It returns false if the position has to be swept
// before. s is the position's slot, or nil.
func (b *borrow) sendClaim(s *rules.Slot, position int, generation uint64) bool {
	ps := b.pool
	var expected uint64
	if s != nil {
		if s.Taken {
			ps.sweep(s)
			return false
		}
		expected = s.Revision
	}
	b.to(claiming)
	b.generation = generation
	number, lease, nonce := b.nextLease()
	b.p.counters.Claims++
	value := entry.SlotValue{
		Lease: lease, Session: b.session, Claimer: b.p.self.id, Ticket: b.ticket.place, Generation: generation,
		After: b.p.view.Fenced(), TTL: entry.Span(b.ttl), Label: b.label, Owner: b.owner, Nonce: nonce, Unseen: b.enqueued(), Origin: b.origin, Request: b.request,
	}
	if !b.request.IsZero() {
		value.Asked = value.TTL
	}
	w := b.p.writes.put(b.p.value(rules.SlotKey(ps.id, position), value, expected, b.ttl), nil)
	b.charge(w)
	c := claim{position: position, number: number, write: w}
	b.claim = c
	put(&ps.flight.Claims, position, rules.Claim{Place: b.ticket.place, Author: w.msg.Author})
	w.settled = func(r resolution) { b.claimSettled(c, r) }
	w.again = func() { c.landed(ps) } // unanswered for so long that other borrows may claim the position
	return true
}

// nextLease returns the number, the lease and the nonce of the borrow's next claim.
func (b *borrow) nextLease() (n int, lease, nonce entry.Hash) {
	if b.leaseOf == nil || b.claim.write == nil {
		return 0, b.lease, b.nonce
	}
	n = b.claim.number + 1
	lease, nonce = b.leaseOf(n)
	return n, lease, nonce
}

// landed stops counting a claim as in flight, unless another one is in flight there.
func (c *claim) landed(ps *poolState) {
	if ps.flight.Claims[c.position].Author == c.write.msg.Author {
		delete(ps.flight.Claims, c.position)
		ps.mark()
	}
}

// claimSettled grants a claim that is good, and withdraws one that is void. The claim of a
// borrow that has ended meanwhile is purged.
func (b *borrow) claimSettled(c claim, r resolution) {
	ps := b.pool
	c.landed(ps)
	current := b.phase == claiming && b.claim.write == c.write
	s := b.p.view.Pool(ps.id).Slot(c.position)
	stands := s != nil && s.Taken && s.Author == c.write.msg.Author
	switch {
	case r.result == unknown:
		c.write.fenceOff()
		if current {
			b.finish(Answer{Err: ErrUnavailable})
		}
		b.leaveAfterClaim()
	case r.result == refused && !r.learnt:
		ps.pause(failurePause)
		fallthrough
	case r.result == refused, !stands: // not written, or purged since
		if current {
			b.requeue()
		} else {
			b.leaveAfterClaim()
		}
	case !current:
		b.p.writes.discard(c.write.msg.Key, s.Revision, func(resolution) { b.leaveAfterClaim() })
	case !s.Good() || !b.grant(b, s):
		b.p.counters.Voids++
		// The cause may take a while to reach the view, and other peers try again as well.
		ps.pause(time.Duration(b.p.random.Int64N(int64(2 * inFlightPause << min(b.voids, 3)))))
		b.voids++
		b.withdraw(s)
	}
}

// withdraw purges a claim that is void or came too late, and then requeues the borrow.
func (b *borrow) withdraw(s *rules.Slot) {
	b.to(withdrawing)
	b.p.writes.discard(b.claim.write.msg.Key, s.Revision, func(resolution) {
		if b.phase == withdrawing {
			b.requeue()
		} else {
			b.leaveAfterClaim()
		}
	})
}

// leaveAfterClaim takes the ticket of a borrow that has ended out of the line, when its last
// claim is not in the way any more: other peers take a claim whose ticket has left the line
// for one that was granted.
func (b *borrow) leaveAfterClaim() {
	if b.phase == done && !b.enqueued() {
		b.leaveLine()
	}
}

// noteSlot purges a claim that has just been applied if it is orphaned.
func (p *pools) noteSlot(e *entry.Entry, own bool) {
	_, given := p.given[e.Author]
	if delete(p.given, e.Author); given && e.Author != 0 || p.isOrphanedClaim(e, own) {
		p.writes.discard(e.Key, e.Revision, nil)
	}
	p.noteRequested(e)
}

// isOrphanedClaim reports whether an entry is a claim of this peer of which no borrow knows:
// its outcome has counted as unknown, and it was written all the same. While the view is
// being loaded it may also be a lease that was granted. pending is set if the entry is that
// of a pending write.
func (p *pools) isOrphanedClaim(e *entry.Entry, pending bool) bool {
	return !pending && !e.Marker && e.Slot.Fence == 0 && p.self.was(e.Slot.Claimer) && p.feed.mode != loading
}

// grant answers the borrow with its lease. It returns false if it is too late to, or if no caller
// waits.
func (byCall) grant(b *borrow, s *rules.Slot) bool {
	if len(b.callers) == 0 {
		return false
	}
	grant, ok := b.p.grantOf(s, b.ttl, b.claim.write.begun)
	if !ok {
		return false
	}
	b.dropPlace()
	b.p.counters.Grants++
	grant.Queued, grant.Claim = b.queued, b.claim.number
	b.finish(Answer{Grant: grant})
	return true
}
