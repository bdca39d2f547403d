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
func (p *Peer) take(b *borrow, pool *rules.Pool, position int) bool {
	ps := b.pool
	if ps.flight.PurgesBelow(position + 1) {
		return false
	}
	if pool.DoubtBelow(position, p.now) {
		p.clearDoubt(ps, pool, position)
		return false
	}
	var stood uint64
	if s := pool.Slot(position); s != nil {
		if s.Taken {
			p.sweep(ps, s)
			return false
		}
		stood = s.Revision
	}
	p.sendClaim(b, position, stood, b.generation)
	return true
}

// clearDoubt does what can be done about the claims below a position that are in
// doubt: it makes the view exact, or purges what an exact view knows for garbage.
func (p *Peer) clearDoubt(ps *poolState, pool *rules.Pool, position int) {
	if !p.world.Exact() {
		p.wantExactFor(ps)
		return
	}
	for i := range position {
		if s := pool.Slot(i); s != nil && s.Excluded() {
			p.sweep(ps, s)
		}
	}
}

// sweep purges what holds no slot at a position that is wanted. Only an exact view
// knows it for what it is.
func (p *Peer) sweep(ps *poolState, s *rules.Slot) {
	if !p.world.Exact() {
		p.wantExactFor(ps)
		return
	}
	if ps.flight.Purges[s.Position] != s.Revision {
		p.release(rules.SlotKey(ps.id, s.Position), s.Revision, nil)
	}
}

func (p *Peer) sendClaim(b *borrow, position int, stood, generation uint64) {
	ps := b.pool
	if b.ticket.stands() {
		put(&ps.flight.Claims, position, b.ticket.place)
	} else {
		put(&ps.flight.Claims, position, 0)
	}
	ps.named = b.named()
	p.noteComing(ps)
	p.to(b, claiming)
	b.generation = generation
	b.claim = claim{position: position, stood: stood, claimer: p.self.id, sent: p.now, next: ps.claims[position]}
	put(&ps.claims, position, b)
	p.counters.Claims++
	value := entry.SlotValue{
		Lease: b.lease, Session: b.session, Claimer: p.self.id, Ticket: b.ticket.place, Generation: generation,
		TTL: entry.Span(b.ttl), Label: b.label, Owner: b.owner, Nonce: b.nonce, Unseen: b.kind != forCall,
	}
	c := &b.claim
	m := p.value(rules.SlotKey(ps.id, position), value, stood, b.ttl)
	c.write = p.send(m, nil)
	w := c.write
	w.done = func(a Ack) { p.claimAnswered(b, w, a) }
	w.again = func() { p.doubtClaim(b, w) }
}

// claimAnswered deals with the answer to a claim. What the view shows decides, so
// there is only failure to deal with.
func (p *Peer) claimAnswered(b *borrow, w *write, a Ack) {
	current := b.phase == claiming && b.claim.write == w
	switch {
	case !current && a.Outcome == Written:
		p.disownClaim(b, &w.msg, a.Revision)
	case !current && a.Outcome == Conflict:
		p.whenReached(a.Revision, func() { p.disown(w.msg.Key, p.claimedBy(b)) })
	case a.Outcome == Unknown && !(current && b.claim.revision != 0):
		p.fenceOff(w.msg, p.claimedBy(b))
		if current {
			p.dropClaim(b)
			p.finish(b, Answer{Err: ErrUnavailable})
		}
	case a.Outcome == Never && current:
		p.dropClaim(b)
		p.finish(b, Answer{Err: ErrUnavailable})
	case a.Outcome == Conflict:
		p.beaten(b, a.Revision)
	case a.Outcome == Written:
		b.claim.acked = a.Revision
	}
}

// disownClaim purges a claim that was written after its borrow had ended, or had
// gone on without it; unless it is the borrow's lease.
func (p *Peer) disownClaim(b *borrow, m *entry.Message, revision uint64) {
	if b.phase == done && b.claim.revision == revision {
		return
	}
	p.releaseAs(p.purgeOf(m, revision), nil)
}

// claimedBy reports whether what stands under a slot's key is a claim of the
// borrow that it does not want: none that became its lease.
func (p *Peer) claimedBy(b *borrow) func(entry.Key) bool {
	claimer := b.claim.claimer
	return func(key entry.Key) bool {
		s := p.world.Pool(key.Pool).Slot(key.N)
		if b.phase == claiming && b.claim.position == key.N {
			return false // it may be the present claim
		}
		granted := b.claim.revision != 0 && (b.phase == done || b.phase == claiming)
		return s != nil && s.Taken && s.Value.Lease == b.lease && s.Value.Claimer == claimer && s.Value.Fence == 0 && !(granted && s.Revision == b.claim.revision)
	}
}

// beaten learns from a refused claim, when the view has caught up with what is
// there: it was an earlier copy of the claim, or it was another's.
func (p *Peer) beaten(b *borrow, actual uint64) {
	ps, w := b.pool, b.claim.write
	ps.heldUntil = max(ps.heldUntil, actual)
	p.whenReached(actual, func() {
		if b.phase != claiming || b.claim.write != w || b.claim.revision != 0 {
			return
		}
		key := rules.SlotKey(ps.id, b.claim.position)
		if s := p.world.Pool(ps.id).Slot(key.N); s != nil && b.claimed(s) {
			ps.changed = append(ps.changed, key.N) // an earlier copy was written
			p.mark(ps)
			return
		}
		if stands, _ := p.world.Stands(key); stands == b.claim.stood { // the view did not know, and does not now
			if actual == 0 {
				p.world.Absent(key)
			}
			p.pause(ps, failurePause)
		}
		p.dropClaim(b)
		p.requeue(b)
	})
}

// noteClaims finds the claims that the view has reached, among those at positions
// that have changed, and decides about them.
func (p *Peer) noteClaims(ps *poolState, pool *rules.Pool) {
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
		for b := ps.claims[i]; b != nil; {
			next := b.claim.next
			p.noteClaim(b, pool.Slot(i))
			if b.phase == claiming && b.claim.revision != 0 {
				p.decide(b, pool.Slot(i))
			}
			b = next
		}
	}
	ps.changed, ps.allChanged = ps.changed[:0], false
}

func (p *Peer) noteClaim(b *borrow, s *rules.Slot) {
	c := &b.claim
	switch {
	case b.phase != claiming || s == nil && c.revision == 0:
	case c.revision == 0 && b.claimed(s) && s.Revision > c.stood:
		c.revision = s.Revision
		p.landed(b)
	case c.revision == 0 && s.Revision > c.stood, c.revision != 0 && (s == nil || s.Revision != c.revision):
		p.dropClaim(b) // lost, purged or superseded: its caller was told nothing
		b.claim.revision = 0
		p.requeue(b)
	}
}

// claimed reports whether a slot is taken by the borrow's claim. Other peers may
// claim for the same enqueued ticket, and so for the same lease.
func (b *borrow) claimed(s *rules.Slot) bool {
	return s.Taken && s.Value.Lease == b.lease && s.Value.Claimer == b.claim.claimer
}

// doubtClaim lets other borrows try a position for which a claim has gone
// unanswered: the compare-and-swap decides between them.
func (p *Peer) doubtClaim(b *borrow, w *write) {
	if b.phase == claiming && b.claim.write == w && b.claim.revision == 0 {
		b.claim.unsure = true
		p.landed(b)
		p.mark(b.pool)
	}
}

// landed notes that a claim is not in flight any more.
func (p *Peer) landed(b *borrow) {
	ps, i := b.pool, b.claim.position
	for o := ps.claims[i]; o != nil; o = o.claim.next {
		if o != b && o.claim.revision == 0 && !o.claim.unsure {
			return
		}
	}
	delete(ps.flight.Claims, i)
}

// dropClaim takes a borrow out of the claims.
func (p *Peer) dropClaim(b *borrow) {
	ps, i := b.pool, b.claim.position
	var last *borrow
	for o := ps.claims[i]; o != nil; last, o = o, o.claim.next {
		if o != b {
			continue
		}
		switch {
		case last != nil:
			last.claim.next = b.claim.next
		case b.claim.next != nil:
			ps.claims[i] = b.claim.next
		default:
			delete(ps.claims, i)
		}
		b.claim.next = nil
		p.landed(b)
		return
	}
}

// decide grants a claim that is good and withdraws one that is void.
func (p *Peer) decide(b *borrow, s *rules.Slot) {
	switch s.Verdict() {
	case rules.Open:
		p.wantExactFor(b.pool)
		return
	case rules.Good:
		if p.grant(b, s) {
			return
		}
	}
	p.counters.Voids++
	p.pause(b.pool, inFlightPause<<min(b.voids, 4)) // what made it void may take a while to be seen
	b.voids++
	p.withdraw(b)
}

// withdraw purges a claim that came to nothing; then the borrow goes on.
func (p *Peer) withdraw(b *borrow) {
	key, revision := rules.SlotKey(b.pool.id, b.claim.position), b.claim.revision
	p.dropClaim(b)
	p.to(b, withdrawing)
	b.claim.revision = 0
	p.release(key, revision, func(Ack) {
		if b.phase == withdrawing {
			p.requeue(b)
		}
	})
}

// abandonClaim takes back the claim of a borrow that has ended. One that is neither
// seen nor acknowledged yet is purged when it is answered.
func (p *Peer) abandonClaim(b *borrow) {
	revision := max(b.claim.revision, b.claim.acked)
	p.dropClaim(b)
	if revision != 0 {
		b.claim.revision = 0
		p.releaseAs(p.purgeOf(&b.claim.write.msg, revision), nil)
	}
}

// grant makes the lease. It promises the whole ttl from now on, unless the answer
// comes so late that the other peers would end it sooner.
func (p *Peer) grant(b *borrow, s *rules.Slot) bool {
	if b.kind == forTicket {
		p.dropClaim(b)
		p.finish(b, Answer{})
		return true
	}
	ttl := remainingTTL(b.ttl, p.now.Sub(b.claim.sent))
	if ttl < time.Second {
		return false
	}
	p.world.EndAt(s, s.Revision, p.now.Add(ttl))
	p.counters.Grants++
	p.dropClaim(b)
	key, revision := rules.SlotKey(b.pool.id, s.Position), s.Revision
	b.call.undo = func() { p.release(key, revision, nil) }
	p.finish(b, Answer{Grant: Grant{Position: s.Position, Fence: s.Fence, TTL: ttl, At: p.now, Nonce: s.Value.Nonce,
		rests: granted{key: key, revision: revision, ttl: b.ttl, sent: b.claim.sent}}})
	return true
}

// remainingTTL is how much of ttl may still be promised when the answer is late by
// d. The other peers end the lease rules.Slack later than its ttl says, so an
// answer within it promises all.
func remainingTTL(ttl, late time.Duration) time.Duration { return ttl - max(0, late-rules.Slack) }
