package peer

import (
	"github.com/kvslots/kvslots/kvslots/internal/entry"
	"github.com/kvslots/kvslots/kvslots/internal/rules"
)

// mayTake reports whether a position may be claimed. If it, or a lower one, is being freed, the claim
// has to wait; if it has a value that holds no slot, that is purged before.
func (ps *poolState) mayTake(s *rules.Slot, position int) bool {
	switch {
	case ps.p.isFreeing(ps.id, position+1):
		ps.markLater()
		return false
	case s != nil && s.Taken:
		ps.sweep(s)
		return false
	}
	return true
}

func (ps *poolState) sweep(s *rules.Slot) {
	if key := rules.SlotKey(ps.id, s.Position); !ps.p.isPurging(key, s.Revision) {
		ps.p.discard(key, s.Revision, nil)
	}
}

func (ps *poolState) take(position int, v entry.SlotValue, settled func(*write)) *write {
	key := rules.SlotKey(ps.id, position)
	v.Claimer, v.After = ps.p.self(), ps.p.view().Fenced()
	if !v.Request.IsZero() {
		v.Asked = v.TTL
	}
	revision, _ := ps.p.view().Latest(key)
	ps.p.count().Claims++
	w := ps.p.put(ps.p.value(key, v, revision, v.TTL.Duration()), settled)
	w.onRepeat(ps.mark)
	w.claims(v.Ticket)
	return w
}

func (b *borrow) sendClaim(position int, generation uint64) {
	b.to(claiming)
	b.generation = generation
	number, lease, nonce := b.nextLease()
	w := b.pool.take(position, entry.SlotValue{
		Lease: lease, Session: b.session, Ticket: b.ticket.place, Generation: generation, TTL: entry.Span(b.ttl), Label: b.label,
		Owner: b.owner, Nonce: nonce, Unseen: b.enqueued(), Origin: b.origin, Request: b.request,
	}, b.claimSettled)
	b.claim = claim{number, w}
}

func (b *borrow) nextLease() (n int, lease, nonce entry.Hash) {
	if b.leaseOf == nil || b.claim.write == nil {
		return 0, b.lease, b.nonce
	}
	n = b.claim.number + 1
	lease, nonce = b.leaseOf(n)
	return n, lease, nonce
}

// claimSettled grants a claim that is good, and withdraws one that is void. The claim of a
// borrow that has ended meanwhile is purged.
func (b *borrow) claimSettled(w *write) {
	current := b.phase == claiming && b.claim.write == w
	s := b.pool.taken(w)
	switch {
	case w.unknown():
		if current {
			b.finish(Answer{Err: ErrUnavailable})
		}
		b.leaveAfterClaim()
	case s == nil && current:
		b.requeue()
	case !current:
		b.p.takeOff(w.key(), w.author(), 0, b.leaveAfterClaim)
	case !s.Good():
		b.pool.pauseVoid(b.voids)
		b.voids++
		b.withdraw(s)
	case !b.grant(s):
		b.withdraw(s)
	}
}

// taken returns the slot of a claim that was written, and was not purged since, or nil.
func (ps *poolState) taken(w *write) *rules.Slot {
	ps.mark()
	s := ps.p.view().Pool(ps.id).Slot(w.key().N)
	switch {
	case w.unknown():
		w.fenceOff()
	case w.refused() && !w.learnt():
		ps.pause(failurePause)
	case s != nil && s.Taken && s.Author == w.author():
		return s
	}
	return nil
}

// pauseVoid pauses for a random time after a claim that was void: its cause may take a while to
// reach the view, and other peers try again as well.
func (ps *poolState) pauseVoid(before int) {
	ps.p.count().Voids++
	ps.pause(ps.p.randomPause(2 * inFlightPause << min(before, 3)))
}

// withdraw purges a claim that is void or came too late, and then requeues the borrow.
func (b *borrow) withdraw(s *rules.Slot) {
	b.to(withdrawing)
	b.claim.write.withdraw(s.Revision, func(*write) {
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

// noteSlot undoes what a write has written that is disowned: a claim, or an answer that tells a caller of a lease.
func (p *pools) noteSlot(e *entry.Entry) {
	if e.Slot.Fence == 0 && p.isDisowned(e.Author) {
		p.undo(e.Author, e.Key, e.Revision, nil)
	}
	for _, answer := range e.Slot.Answers {
		if p.isDisowned(answer) {
			p.takeOff(e.Key, answer, 0, func() {})
		}
	}
	p.noteRequested(e)
}

// grant answers the borrow with its lease. It returns false if it is too late for an answer, or if no
// caller has waited since before the claim.
func (b *borrow) grant(s *rules.Slot) bool {
	if !b.isWaitedForSince(b.claim.write.sentAt()) {
		return false
	}
	grant, ok := b.p.grantOf(s, b.ttl, b.claim.write.sentAt())
	if !ok {
		return false
	}
	b.dropPlace()
	b.p.count().Grants++
	grant.Queued, grant.Claim = b.queued, b.claim.number
	b.finish(Answer{Grant: grant})
	return true
}

func (ps *poolState) serveLine(pool *rules.Pool) {
	if pool == nil {
		return
	}
	for _, t := range pool.Able() {
		b := ps.tickets[t.Key]
		switch {
		case t.Value.Enqueued() && ps.claimsFor(t) && pool.Requested(t.Value.Request) == nil:
		case t.Value.Enqueued() && ps.claimsFor(t): // a claim would be void
			ps.leaveToRepeat(t)
			continue
		case b == nil || b.phase != waiting || b.enqueued() || b.ticket.place != t.Place || t.Server() != ps.p.self():
			continue
		case pool.Requested(b.request) != nil: // a claim would be void
			b.lookForSlot()
			continue
		}
		position, ok := pool.Choose(t, ps.p.inFlight(ps.id))
		switch {
		case !ok || !ps.mayTake(pool.Slot(position), position):
			return
		case t.Value.Enqueued():
			ps.claimFor(t, position)
		default:
			b.sendClaim(position, b.generation)
		}
	}
}

// claimsFor reports whether this peer has to claim for an enqueued ticket now. No borrow of any peer
// waits for it: a call of Await finds the slot. A claim that is sent again and again is one claim.
func (ps *poolState) claimsFor(t *rules.Ticket) bool {
	_, serving := ps.serving[t.Place]
	return ps.p.isPresent() && t.Promotes(ps.p.self(), ps.p.now()) && !serving
}

// leaveToRepeat takes an enqueued ticket out of the line whose session was lent a slot for the same request key: two
// calls were decided at once.
func (ps *poolState) leaveToRepeat(t *rules.Ticket) {
	if t.Pool.Requested(t.Value.Request).Good() && !ps.p.isPurging(t.Key, t.Revision) {
		ps.p.discard(t.Key, t.Revision, nil)
	}
}

func (ps *poolState) claimFor(t *rules.Ticket, position int) {
	v, place := &t.Value, t.Place
	ps.users++
	put(&ps.serving, place, struct{}{})
	ps.take(position, entry.SlotValue{
		Lease: v.Lease, Session: t.Key.Session, Ticket: place, Generation: v.Generation, TTL: v.TTL, Label: v.Label, Nonce: v.Nonce,
		Unseen: true, Request: v.Request,
	}, func(w *write) {
		ps.users--
		delete(ps.serving, place)
		ps.ticketServed(w)
	})
}

// ticketServed lets the lease of a claim for an enqueued ticket begin, or withdraws the claim.
func (ps *poolState) ticketServed(w *write) {
	switch s := ps.taken(w); {
	case s == nil:
	case s.Good():
		ps.p.view().EndAt(s, s.Revision, s.Granted.Add(s.Value.TTL.Duration()))
	default:
		ps.pauseVoid(0)
		w.withdraw(s.Revision, nil)
	}
}
