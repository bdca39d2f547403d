package kvslots

import (
	"errors"
	"time"

	"github.com/kvslots/kvslots/kvslots/internal/entry"
	"github.com/kvslots/kvslots/kvslots/internal/rules"
)

// take sends a claim for a position that a borrower may have. It returns false
// when that has to wait: for a lower position that is being freed, for a claim
// on one that is about to be withdrawn, or for the purge of what is left there
// of an older incarnation.
func (b *bucket) take(lp *local, p *rules.Pool, op *borrow, position int) bool {
	if lp.flight.PurgesBelow(position+1) || p.DoubtBelow(position, b.now()) {
		return false
	}
	var stood uint64
	if s := p.Slot(position); s != nil {
		if s.Stale() {
			b.sweep(lp, s)
			return false
		}
		stood = s.Revision
	}
	if len(lp.queue) > 0 && lp.queue[0] == op {
		lp.queue = lp.queue[1:]
	}
	delete(lp.waiting, op.ticket)
	delete(lp.refusing, op)
	put(&lp.claims, op, struct{}{})
	b.claiming[lp] = struct{}{}
	put(&lp.flight.Claims, position, op.ticket)
	b.stats.claims++
	if op.tried.IsZero() {
		op.tried = time.Now()
	}
	op.claim = claim{position: position, stood: stood, sent: b.now(), flying: true, number: op.claim.number + 1}
	value := entry.SlotValue{
		Lease: op.hash, Claimer: b.self.id, Ticket: op.ticket, Incarnation: op.incarnation,
		TTL: entry.Span(op.ttl), Label: op.label, Session: op.session, Naming: op.naming,
		Unseen: op.manner != waits,
	}
	attempt := op.claim
	b.send(write(slotKey(lp.id, position), value, stood, op.ttl), func(a ack) { b.claimed(lp, op, attempt, a) })
	return true
}

// sweep purges what an older incarnation, or somebody else, left at a position
// that is wanted. Only an exact view knows it for what it is.
func (b *bucket) sweep(lp *local, s *rules.Slot) {
	if !b.world.Exact() {
		b.wantExactFor(lp.id)
		return
	}
	b.release(slotKey(lp.id, s.Position), s.Revision, 0, nil)
}

// claimed deals with the answer to a claim. Success is what the view shows, so
// there is only failure to deal with.
func (b *bucket) claimed(lp *local, op *borrow, attempt claim, a ack) {
	b.mu.Lock()
	defer b.mu.Unlock()
	key := slotKey(lp.id, attempt.position)
	current := op.claim.number == attempt.number && op.claim.flying // the view has not told yet
	switch {
	case a.err == nil:
		op.failing = 0
		if op.claim.number != attempt.number {
			op.unsure++ // it was purged before the view came to see it
			op.cleared = time.Now()
			return
		}
		op.claim.acked = a.revision
		if op.over && op.result == nil {
			b.unclaim(lp, op)
		}
		return
	case errors.Is(a.err, errUnknown), errors.Is(a.err, errGone):
		b.orphan(lp, op, key, attempt)
	}
	if current {
		b.landed(lp, op)
	}
	if current && !op.over {
		if errors.Is(a.err, errConflict) {
			b.beaten(lp, attempt, a.revision)
		}
		if b.failed(lp, op, a.err) {
			b.requeue(lp, b.world.Pool(lp.id), op)
		}
	}
	b.dirty[lp.id] = struct{}{}
	b.follow()
}

// landed notes that a borrower's claim is not in flight any more.
func (b *bucket) landed(lp *local, op *borrow) {
	if op.claim.flying {
		op.claim.flying = false
		delete(lp.flight.Claims, op.claim.position)
	}
}

// beaten learns from a conflict: the view has to catch up with what is there;
// or what it takes for a marker has gone.
func (b *bucket) beaten(lp *local, attempt claim, actual uint64) {
	if actual > b.world.Revision {
		lp.held = max(lp.held, actual)
		return
	}
	s := slotOf(b.world.Pool(lp.id), attempt.position)
	if s != nil && s.Revision == attempt.stood {
		b.world.Absent(s, actual)
	}
	if s != nil && s.Revision != actual {
		b.pause(lp, conflictPause)
	}
}

// orphan sees to it that a claim of which nothing is known is purged whenever
// it appears.
func (b *bucket) orphan(lp *local, op *borrow, key entry.Key, attempt claim) {
	hash := op.hash
	if s := slotOf(b.world.Pool(lp.id), attempt.position); s != nil && s.Taken && s.Value.Lease == hash {
		b.release(key, s.Revision, 0, nil)
		return
	}
	b.orphans[hash] = struct{}{}
	b.spoil(key, attempt.stood, func(actual uint64, entry bool) {
		if !entry {
			delete(b.orphans, hash)
			return
		}
		// When the view has reached what is there, it is known whose it is;
		// adopt has purged it by then if it was the orphan.
		b.put(&question{revision: max(actual, 1), loose: true, done: make(chan struct{}), try: func() bool {
			delete(b.orphans, hash)
			return true
		}})
	})
}

// adopt purges a claim that nobody waits for any more.
func (b *bucket) adopt(e entry.Entry) {
	if len(b.orphans) == 0 || e.Key.Kind != entry.Slot || e.Marker {
		return
	}
	if _, orphan := b.orphans[e.Slot.Lease]; orphan {
		delete(b.orphans, e.Slot.Lease)
		b.release(e.Key, e.Revision, 0, nil)
	}
}

// judge decides about the claims that the view has reached.
func (b *bucket) judge(lp *local, p *rules.Pool) {
	for op := range lp.claims {
		c := &op.claim
		s := slotOf(p, c.position)
		switch {
		case s == nil:
			continue
		case c.revision == 0 && s.Taken && s.Value.Lease == op.hash && s.Revision > c.stood:
			c.revision = s.Revision
			b.landed(lp, op)
		case c.revision == 0 && s.Revision > c.stood, c.revision != 0 && s.Revision != c.revision:
			b.landed(lp, op)
			if c.acked != 0 && !c.withdrawn {
				op.unsure++
				op.cleared = time.Now()
			}
			b.requeue(lp, p, op) // lost, purged or superseded: nobody was told
			continue
		case c.revision == 0:
			continue
		}
		if !c.withdrawn {
			b.decide(lp, op, s)
		}
	}
}

// decide grants a claim that is good and withdraws one that is void.
func (b *bucket) decide(lp *local, op *borrow, s *rules.Slot) {
	switch s.Verdict() {
	case rules.Open:
		b.wantExactFor(lp.id)
		return
	case rules.Good:
		if lease := b.grant(op, s, b.now()); lease != nil {
			b.finish(lp, op, lease, nil)
			return
		}
	}
	b.stats.voids++
	b.unclaim(lp, op)
}

// grant makes the lease. It promises the whole ttl from now on, unless the
// answer comes so late that the other peers would end it sooner.
func (b *bucket) grant(op *borrow, s *rules.Slot, now rules.Instant) *Lease {
	ttl := promise(op.ttl, time.Duration(now-op.claim.sent))
	if ttl < time.Second {
		return nil
	}
	b.world.EndAt(s, s.Revision, now.Add(ttl))
	return newLease(op.lender, op.poolID, op.lease, s.Position, s.Fence, ttl, b.origin.Add(time.Duration(now)))
}

// promise is what is left of a ttl for an answer that comes late by that much.
// The other peers end the lease rules.Slack later than the claim's timestamp
// says, so an answer within it promises all.
func promise(ttl, late time.Duration) time.Duration {
	return ttl - max(0, late-rules.Slack)
}
