package peer

import (
	"slices"
	"time"

	"github.com/kvslots/kvslots/kvslots/internal/entry"
	"github.com/kvslots/kvslots/kvslots/internal/rules"
)

// failurePause follows a refusal that taught nothing.
const failurePause = 50 * time.Millisecond

// take sends a claim for a position that a borrow may have. It returns false when
// that has to wait: for a lower position that is being freed, for a claim on one
// that may be withdrawn, or for the purge of garbage at the position.
func (b *borrow) take(pool *rules.Pool, position int) bool {
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

// clearDoubt does what can be done about the claims below a position that are in
// doubt: it makes the view exact, or purges what an exact view knows for garbage.
func (ps *poolState) clearDoubt(pool *rules.Pool, position int) {
	if !ps.p.view.Exact() {
		ps.wantExact()
		return
	}
	for i := range position {
		if s := pool.Slot(i); s != nil && s.Excluded() {
			ps.sweep(s)
		}
	}
}

// sweep purges what holds no slot at a position that is wanted. Only an exact view
// knows it for what it is.
func (ps *poolState) sweep(s *rules.Slot) {
	if !ps.p.view.Exact() {
		ps.wantExact()
		return
	}
	if ps.flight.Purges[s.Position] != s.Revision {
		ps.p.release(rules.SlotKey(ps.id, s.Position), s.Revision, nil)
	}
}

// sendClaim claims a position, unless garbage has to be purged there before: then it
// returns false. s is its slot, or nil.
func (b *borrow) sendClaim(s *rules.Slot, position int, generation uint64) bool {
	ps := b.pool
	var stood uint64
	if s != nil {
		if s.Taken {
			ps.sweep(s)
			return false
		}
		stood = s.Revision
	}
	put(&ps.flight.Claims, position, b.ticket.place)
	ps.named = b.named()
	ps.noteComing()
	b.to(claiming)
	b.generation = generation
	b.claim = claim{position: position, stood: stood, claimer: b.p.self.id}
	put(&ps.claims, position, append(ps.claims[position], b))
	b.p.counters.Claims++
	value := entry.SlotValue{
		Lease: b.lease, Session: b.session, Claimer: b.p.self.id, Ticket: b.ticket.place, Generation: generation,
		TTL: entry.Span(b.ttl), Label: b.label, Owner: b.owner, Nonce: b.nonce, Unseen: b.kind != forCall,
	}
	w := b.p.send(b.p.value(rules.SlotKey(ps.id, position), value, stood, b.ttl), nil)
	b.claim.write = w
	w.done = func(a Ack) { b.claimAnswered(w, a) }
	w.again = func() { b.doubtClaim(w) }
	return true
}

// claimAnswered deals with the answer to a claim. What the view shows decides, so
// there is only failure to deal with.
func (b *borrow) claimAnswered(w *write, a Ack) {
	switch {
	case a.Outcome == Written && b.claim.revision == a.Revision: // the view was ahead
	case !b.claims(w):
		w.undo(a, b.claimedBy())
	case a.Outcome == Written:
		if b.claim.acked = a.Revision; b.claim.revision == 0 && b.p.view.Revision > a.Revision { // the view has skipped it
			b.pool.changed = append(b.pool.changed, b.claim.position)
			b.pool.mark()
		}
	case a.Outcome == Conflict:
		b.beaten(w, a.Revision)
	case b.claim.revision == 0:
		w.undo(a, b.claimedBy())
		b.finish(Answer{Err: ErrUnavailable})
	}
}

// claims reports whether a write is the borrow's present claim.
func (b *borrow) claims(w *write) bool { return b.phase == claiming && b.claim.write == w }

// claimedBy reports whether what stands under a slot's key is a claim of the
// borrow that it does not want: none that became its lease.
func (b *borrow) claimedBy() func(entry.Key) bool {
	claimer := b.claim.claimer
	return func(key entry.Key) bool {
		s := b.p.view.Pool(key.Pool).Slot(key.N)
		if b.phase == claiming && b.claim.position == key.N {
			return false // it may be the present claim
		}
		granted := b.claim.revision != 0 && (b.phase == done || b.phase == claiming)
		return s != nil && s.Taken && s.Value.Lease == b.lease && s.Value.Claimer == claimer && s.Value.Fence == 0 && !(granted && s.Revision == b.claim.revision)
	}
}

// beaten learns from a refused claim, when the view has caught up with what is
// there: it was an earlier copy of the claim, or it was another's.
func (b *borrow) beaten(w *write, actual uint64) {
	ps := b.pool
	ps.heldUntil = max(ps.heldUntil, actual)
	b.p.whenReached(actual, func() {
		if !b.claims(w) || b.claim.revision != 0 {
			return
		}
		key := w.msg.Key
		if s := b.p.view.Pool(ps.id).Slot(key.N); s != nil && b.claimed(s) {
			ps.changed = append(ps.changed, key.N) // an earlier copy was written
			ps.mark()
			return
		}
		if stands, _ := b.p.view.Stands(key); stands == b.claim.stood { // the view did not know, and does not now
			if actual == 0 {
				b.p.view.Absent(key)
			}
			ps.pause(failurePause)
		}
		b.dropClaim()
		b.requeue()
	})
}

// noteClaims finds the claims that the view has reached, among those at positions
// that have changed, and decides about them.
func (ps *poolState) noteClaims(pool *rules.Pool) {
	if len(ps.claims) == 0 {
		ps.changed, ps.allChanged = ps.changed[:0], false
		return
	}
	if ps.allChanged {
		ps.changed = ps.changed[:0]
		for i := range ps.claims {
			ps.changed = append(ps.changed, i)
		}
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
	case c.revision == 0 && b.claimed(s) && s.Revision > c.stood:
		c.revision = s.Revision
		b.landed()
	case c.revision == 0 && s.Revision > c.stood && s.Replaced != c.stood && !c.write.over:
		// It may have been written, and ended, which the view has skipped: the answer tells.
	case c.revision == 0 && s.Revision > c.stood:
		if t := s.Pool.Ticket(b.ticket.place); t != nil && s.Replaced != c.stood {
			t.Unsure = t.Unsure || c.acked != 0 || len(c.write.ids) > 1
		}
		b.dropClaim() // lost
		b.requeue()
	case c.revision != 0 && (s == nil || s.Revision != c.revision):
		b.dropClaim() // purged or superseded: its caller was told nothing
		c.revision = 0
		b.requeue()
	}
}

// claimed reports whether a slot is taken by the borrow's claim. Other peers may
// claim for the same enqueued ticket, and so for the same lease.
func (b *borrow) claimed(s *rules.Slot) bool {
	return s.Taken && s.Value.Lease == b.lease && s.Value.Claimer == b.claim.claimer
}

// doubtClaim lets other borrows try a position for which a claim has gone
// unanswered: the compare-and-swap decides between them.
func (b *borrow) doubtClaim(w *write) {
	if b.claims(w) && b.claim.revision == 0 {
		b.claim.unsure = true
		b.landed()
		b.pool.mark()
	}
}

// landed notes that a claim is not in flight any more.
func (b *borrow) landed() {
	ps, i := b.pool, b.claim.position
	for _, o := range ps.claims[i] {
		if o != b && o.claim.revision == 0 && !o.claim.unsure {
			return
		}
	}
	delete(ps.flight.Claims, i)
}

// dropClaim takes a borrow out of the claims.
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
	// What made it void may take a while to be seen, and other peers try again as well.
	b.pool.pause(time.Duration(b.p.random.Int64N(int64(2 * inFlightPause << min(b.voids, 3)))))
	b.voids++
	b.withdraw()
}

// withdraw purges a claim that came to nothing; then the borrow goes on.
func (b *borrow) withdraw() {
	p := b.p
	m := p.purge(rules.SlotKey(b.pool.id, b.claim.position), b.claim.revision)
	m.Author = p.randomNumber()
	sent := &write{}
	p.writes.authored[m.Author] = sent
	b.dropClaim()
	b.to(withdrawing)
	b.claim.revision = 0
	again := func() {
		if b.phase == withdrawing {
			b.requeue()
		}
	}
	p.releaseAs(m, func(a Ack) {
		if a.Outcome == Written {
			again()
		}
		p.whenReached(a.Revision, func() {
			t := p.view.Pool(b.pool.id).Ticket(b.ticket.place)
			if t != nil && (a.Outcome == Written || sent.shown != 0) {
				t.Unsure = false // this purge names no ticket
			}
			delete(p.writes.authored, m.Author)
			again()
		})
	})
}

// abandonClaim takes back the claim of a borrow that has ended. One that is neither
// seen nor acknowledged yet is purged when it is answered.
func (b *borrow) abandonClaim() {
	w, revision := b.claim.write, max(b.claim.revision, b.claim.acked)
	b.dropClaim()
	b.claim.revision = 0
	if revision != 0 {
		w.undo(Ack{Outcome: Written, Revision: revision}, b.claimedBy())
	}
}

// grant makes the lease. It promises the whole ttl from now on, unless the answer
// comes so late that the other peers would end it sooner.
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
	grant.Queued = b.queued
	b.finish(Answer{Grant: grant})
	return true
}

// grantOf is what is told of a lease that was written at sent for a ttl, and has the
// lease end when that says so. ok is false when it is too late to tell.
func (p *Peer) grantOf(s *rules.Slot, ttl time.Duration, sent Instant) (g Grant, ok bool) {
	left := remainingTTL(ttl, p.now.Sub(sent))
	if left < time.Second {
		return Grant{}, false
	}
	p.view.EndAt(s, s.Revision, p.now.Add(left))
	rests := granted{key: rules.SlotKey(s.Pool.ID, s.Position), revision: s.Revision, ttl: ttl, sent: sent}
	return Grant{Position: s.Position, Fence: s.Fence, TTL: left, At: p.now, Nonce: s.Value.Nonce, rests: rests}, true
}

// remainingTTL is how much of ttl may still be promised when the answer is late by
// d. The other peers end the lease rules.Slack later than its ttl says, so an
// answer within it promises all.
func remainingTTL(ttl, late time.Duration) time.Duration { return ttl - max(0, late-rules.Slack) }
