package peer

import (
	"maps"
	"slices"
	"time"

	"github.com/kvslots/kvslots/kvslots/internal/entry"
	"github.com/kvslots/kvslots/kvslots/internal/rules"
)

// failurePause is the pause after a refusal that taught the view nothing.
const failurePause = 50 * time.Millisecond

// tryClaim claims a position for a borrow. It returns false if the claim has to wait:
// a lower position is being freed, the claim of a lower position may be withdrawn, or
// this position has to be swept.
func (b *borrow) tryClaim(pool *rules.Pool, position int) bool {
	ps := b.pool
	if ps.flight.PurgesBelow(position + 1) {
		return false
	}
	if pool.DoubtBelow(position, b.p.now) {
		ps.clearDoubt(pool, position)
		return false
	}
	return b.sendClaim(pool.Slot(position), position, b.generation)
}

// clearDoubt resolves doubts about claims below a position: it makes the view exact,
// or purges the claims that an exact view excludes, and those that are LostUnseen.
func (ps *poolState) clearDoubt(pool *rules.Pool, position int) {
	if !ps.p.view.Exact() {
		ps.wantExact()
		return
	}
	for i := range position {
		if s := pool.Slot(i); s != nil && (s.Excluded() || s.LostUnseen()) {
			ps.sweep(s)
		}
	}
}

// sweep purges a value that holds no slot. It makes the view exact before that, since
// only an exact view is certain about it.
func (ps *poolState) sweep(s *rules.Slot) {
	if !ps.p.view.Exact() {
		ps.wantExact()
		return
	}
	if ps.flight.Purges[s.Position] != s.Revision {
		ps.p.writes.release(rules.SlotKey(ps.id, s.Position), s.Revision, nil)
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
	put(&ps.flight.Claims, position, b.ticket.place)
	ps.named = b.named()
	ps.noteOpening()
	b.to(claiming)
	b.generation = generation
	number, lease := b.nextLease()
	b.claim = claim{position: position, number: number, lease: lease, expected: expected, claimer: b.p.self.id}
	put(&ps.claims, position, append(ps.claims[position], b))
	b.p.counters.Claims++
	value := entry.SlotValue{
		Lease: lease, Session: b.session, Claimer: b.p.self.id, Ticket: b.ticket.place, Generation: generation,
		TTL: entry.Span(b.ttl), Label: b.label, Owner: b.owner, Nonce: b.nonce, Unseen: b.kind != forCall,
	}
	w := b.p.writes.send(b.p.value(rules.SlotKey(ps.id, position), value, expected, b.ttl), nil)
	b.claim.write = w
	w.done = func(a Ack) { b.claimAnswered(w, lease, a) }
	w.again = func() { b.claimOverdue(w) }
	return true
}

// nextLease returns the number and the lease of the borrow's next claim.
func (b *borrow) nextLease() (n int, lease entry.Hash) {
	if b.leaseOf == nil || b.claim.write == nil {
		return 0, b.lease
	}
	n = b.claim.number + 1
	return n, b.leaseOf(n)
}

// claimAnswered handles the answer to a claim. It only has to handle failures, since
// a claim is granted when the view shows it.
func (b *borrow) claimAnswered(w *write, lease entry.Hash, a Ack) {
	switch {
	case a.Outcome == Written && b.claim.revision == a.Revision: // the view was ahead
	case !b.claims(w):
		w.undo(a, b.claimedBy(lease))
	case a.Outcome == Written:
		if b.claim.acked = a.Revision; b.claim.revision == 0 && b.p.view.Revision > a.Revision { // the view has skipped it
			b.pool.changed = append(b.pool.changed, b.claim.position)
			b.pool.mark()
		}
	case a.Outcome == Conflict:
		b.beaten(w, a.Revision)
	case b.claim.revision == 0:
		w.undo(a, b.claimedBy(lease))
		b.finish(Answer{Err: ErrUnavailable})
	}
}

// claims reports whether a write is the borrow's current claim.
func (b *borrow) claims(w *write) bool { return b.phase == claiming && b.claim.write == w }

// claimedBy returns a function that reports whether a slot is taken by a claim of
// the borrow for a lease, other than a granted one and the current one.
func (b *borrow) claimedBy(lease entry.Hash) func(entry.Key) bool {
	claimer := b.claim.claimer
	return func(key entry.Key) bool {
		s := b.p.view.Pool(key.Pool).Slot(key.N)
		if b.phase == claiming && b.claim.position == key.N {
			return false // it may be the current claim
		}
		granted := b.claim.revision != 0 && (b.phase == done || b.phase == claiming)
		return s != nil && s.Taken && s.Value.Lease == lease && s.Value.Claimer == claimer && s.Value.Fence == 0 && !(granted && s.Revision == b.claim.revision)
	}
}

// beaten handles the refusal of a claim. It waits until the view has reached the entry that
// took the position: an earlier copy of this claim, or another claim.
func (b *borrow) beaten(w *write, actual uint64) {
	ps := b.pool
	ps.awaitedRevision = max(ps.awaitedRevision, actual)
	b.p.reads.whenReached(actual, func() {
		if !b.claims(w) || b.claim.revision != 0 {
			return
		}
		key := w.msg.Key
		if latest, _ := b.p.view.Latest(key); latest > b.claim.expected { // noteClaim finds out whose entry it is
			ps.changed = append(ps.changed, key.N)
			ps.mark()
			return
		}
		if actual == 0 {
			b.p.view.Absent(key)
		}
		ps.pause(failurePause) // the refusal taught the view nothing
		b.loseClaim(actual > b.claim.expected)
	})
}

// noteClaims updates the claims at positions that have changed, and decides about
// those that the view shows.
func (ps *poolState) noteClaims(pool *rules.Pool) {
	if ps.allChanged {
		ps.changed = slices.AppendSeq(ps.changed[:0], maps.Keys(ps.claims))
		slices.Sort(ps.changed)
	}
	for _, i := range ps.changed {
		for _, b := range ps.claims[i] {
			b.noteClaim(pool.Slot(i))
			if b.phase == claiming && b.claim.revision != 0 {
				b.decide(pool.Slot(i))
			}
		}
	}
	ps.changed, ps.allChanged = ps.changed[:0], false
}

func (b *borrow) noteClaim(s *rules.Slot) {
	c := &b.claim
	switch {
	case b.phase != claiming || s == nil && c.revision == 0:
	case c.revision == 0 && b.claimed(s) && s.Revision > c.expected:
		c.revision = s.Revision
		b.landed()
	case c.revision == 0 && s.Revision > c.expected && s.Replaced != c.expected && !c.write.over:
		// The view may have skipped the claim and its end: wait for the answer.
	case c.revision == 0 && s.Revision > c.expected:
		b.loseClaim(s.Replaced != c.expected)
	case c.revision != 0 && (s == nil || s.Revision != c.revision):
		b.dropClaim() // purged or superseded before its caller had an answer
		c.revision = 0
		b.requeue()
	}
}

// loseClaim requeues a borrow whose claim does not hold its position. If the view has
// skipped an entry of the position, that may have been the claim, and its end may have
// used up the ticket.
func (b *borrow) loseClaim(skipped bool) {
	if t := b.p.view.Pool(b.pool.id).Ticket(b.ticket.place); t != nil && skipped {
		t.Unsure = t.Unsure || b.claim.acked != 0 || len(b.claim.write.ids) > 1
	}
	b.dropClaim()
	b.requeue()
}

// claimed reports whether a slot is taken by the borrow's claim. It compares the
// claimer too: other peers may claim for the same enqueued ticket and lease.
func (b *borrow) claimed(s *rules.Slot) bool {
	return s.Taken && s.Value.Lease == b.claim.lease && s.Value.Claimer == b.claim.claimer
}

// claimOverdue allows other borrows to claim the position of an unanswered claim: the
// compare-and-swap decides between them.
func (b *borrow) claimOverdue(w *write) {
	if b.claims(w) && b.claim.revision == 0 {
		b.claim.overdue = true
		b.landed()
		b.pool.mark()
	}
}

// landed stops counting a claim as in flight, unless another one is in flight there.
func (b *borrow) landed() {
	ps, i := b.pool, b.claim.position
	for _, o := range ps.claims[i] {
		if o != b && o.claim.revision == 0 && !o.claim.overdue {
			return
		}
	}
	delete(ps.flight.Claims, i)
}

func (b *borrow) dropClaim() {
	drop(b.pool.claims, b.claim.position, b)
	b.landed()
}

// decide grants a claim that is good and withdraws one that is void.
func (b *borrow) decide(s *rules.Slot) {
	switch s.Verdict() {
	case rules.Open:
		b.pool.wantExact()
		return
	case rules.Good:
		if b.grant(s) {
			return
		}
	}
	b.p.counters.Voids++
	// The cause may take a while to reach the view, and other peers try again as well.
	b.pool.pause(time.Duration(b.p.random.Int64N(int64(2 * inFlightPause << min(b.voids, 3)))))
	b.voids++
	b.withdraw()
}

// withdraw purges a claim that is void or came too late, and then requeues the borrow.
func (b *borrow) withdraw() {
	p := b.p
	m := p.purge(rules.SlotKey(b.pool.id, b.claim.position), b.claim.revision)
	m.Author = p.randomNumber()
	sent := &write{} // shown is set when the view shows the purge
	p.writes.authored[m.Author] = sent
	b.dropClaim()
	b.to(withdrawing)
	b.claim.revision = 0
	again := func() {
		if b.phase == withdrawing {
			b.requeue()
		}
	}
	p.writes.releaseAs(m, func(a Ack) {
		if a.Outcome == Written {
			again()
		}
		p.reads.whenReached(a.Revision, func() {
			t := p.view.Pool(b.pool.id).Ticket(b.ticket.place)
			switch latest, _ := p.view.Latest(m.Key); {
			case t == nil:
			case a.Outcome == Written || sent.shown != 0:
				t.Unsure = false // this purge names no ticket
			case latest == m.Revision:
				t.Unsure = true // the view has skipped another purge, which may name it
			}
			delete(p.writes.authored, m.Author)
			again()
		})
	})
}

// abandonClaim purges the claim of a borrow that has ended, once the claim is seen or
// answered.
func (b *borrow) abandonClaim() {
	w, revision := b.claim.write, max(b.claim.revision, b.claim.acked)
	b.dropClaim()
	b.claim.revision = 0
	if revision != 0 {
		w.undo(Ack{Outcome: Written, Revision: revision}, b.claimedBy(b.claim.lease))
	}
}

// grant answers the borrow with its lease. It returns false if it is too late to.
func (b *borrow) grant(s *rules.Slot) bool {
	if b.kind == forTicket {
		b.dropClaim()
		b.finish(Answer{})
		return true
	}
	grant, ok := b.p.grantOf(s, b.ttl, b.claim.write.begun)
	if !ok {
		return false
	}
	b.p.counters.Grants++
	b.dropClaim()
	grant.Queued, grant.Claim = b.queued, b.claim.number
	b.finish(Answer{Grant: grant})
	return true
}

// grantOf returns the grant of a lease whose write was sent at sent, and sets the lease's
// end accordingly. ok is false if less than a second of the ttl is left.
func (p *Peer) grantOf(s *rules.Slot, ttl time.Duration, sent Instant) (g Grant, ok bool) {
	left := remainingTTL(ttl, p.now.Sub(sent))
	if left < time.Second {
		return Grant{}, false
	}
	p.view.EndAt(s, s.Revision, p.now.Add(left))
	basis := grantBasis{key: rules.SlotKey(s.Pool.ID, s.Position), revision: s.Revision, lease: s.Value.Lease, ttl: ttl, sent: sent}
	return Grant{Position: s.Position, Fence: s.Fence, TTL: left, At: p.now, Nonce: s.Value.Nonce, basis: basis}, true
}

// remainingTTL returns how much of ttl an answer may still promise when it is late by
// late. The other peers end the lease rules.Slack after its ttl, so an answer within
// rules.Slack promises all.
func remainingTTL(ttl, late time.Duration) time.Duration { return ttl - max(0, late-rules.Slack) }
