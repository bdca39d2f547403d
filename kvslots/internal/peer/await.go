package peer

import (
	"cmp"
	"errors"

	"github.com/kvslots/kvslots/kvslots/internal/entry"
	"github.com/kvslots/kvslots/kvslots/internal/rules"
)

// await is a call of Await: it waits for the slot that a session has enqueued for.
type await struct {
	p       *enqueued
	call    *call
	pool    *poolState
	session entry.Hash
	lock    bool
	place   uint64 // of the ticket that it found first; 0: none
	certain bool   // the view has been live and as new as the call
	why     error  // why the call ends without a slot; nil while it waits
	none    error  // the answer if the session has neither a slot nor a ticket
	mark    uint64 // the author number of the write that clears Unseen in the slot, unless it was refused: see markSeen
	busy    bool   // a write is under way
	expiry  timer
}

func (p *enqueued) await(c *call, r Await) {
	a := &await{p: p, call: c, pool: p.of(r.Pool), session: r.Session, lock: r.Lock, none: ErrNotEnqueued}
	p.awaits[a.key()] = append(p.awaits[a.key()], a)
	a.pool.users++
	c.bound(p.now().Add(r.Wait + patience))
	c.onReload(a.step)
	c.onQuit(quitFunc(a.stop))
	p.arm(&a.expiry, p.now().Add(r.Wait), func() { a.stop(ErrNoSlot) })
	p.whenCurrent(c, func() {
		a.certain = true
		a.step()
	})
}

func (a *await) key() sessionPool { return sessionPool{a.pool.id, a.session} }

// stop ends an await. It first takes the session's ticket out of the line, unless
// why says that the place is to be kept.
func (a *await) stop(why error) {
	switch {
	case errors.Is(why, ErrClosed), errors.Is(why, ErrUnavailable):
		a.end(Answer{Err: why})
	case a.why != nil: // it is leaving the line already, with the first reason
	case errors.Is(why, ErrPlaceKept) && a.busy && a.mark != 0: // the call is about to be answered with the slot
	case errors.Is(why, ErrPlaceKept):
		a.end(Answer{Err: why})
	default:
		a.why = why
		a.call.bound(a.p.now().Add(patience))
		a.p.whenLive(a.step)
	}
}

// gaveUp reports whether the await ends because its caller is gone, and not because its
// time is over.
func (a *await) gaveUp() bool { return a.why != nil && !errors.Is(a.why, ErrNoSlot) }

func (a *await) end(answer Answer) {
	if !a.call.isOpen() || a.call.kept() != nil {
		return
	}
	a.p.disarm(&a.expiry)
	ps := a.pool
	drop(a.p.awaits, a.key(), a)
	ps.users--
	a.call.onQuit(nil)
	a.call.answer(answer)
	ps.mark()
	if (a.why != nil || a.mark != 0) && (errors.Is(answer.Err, ErrUnavailable) || errors.Is(answer.Err, ErrClosed)) {
		a.free(func() {})
	}
}

// changed schedules the awaits of a session in a pool, because its ticket or
// its slot there has changed.
func (p *enqueued) changed(pool, session entry.Hash) {
	for _, a := range p.awaits[sessionPool{pool, session}] {
		p.whenLive(a.step)
	}
}

// found returns what has become of the Enqueue that the call waits for. The session may have
// enqueued again since, or under other terms.
func (a *await) found() rules.Enqueued {
	pool := a.p.view().Pool(a.pool.id)
	e := a.p.view().EnqueuedIn(pool, a.session)
	if pool.Exists() && pool.Terms().Lock != a.lock && e.Status != rules.Spent {
		return rules.Enqueued{}
	}
	if a.place = cmp.Or(a.place, e.Place()); e.Place() != a.place {
		return rules.Enqueued{}
	}
	return e
}

// step does what the status of the session's ticket or slot calls for, in a live view.
func (a *await) step() {
	if a.busy || !a.certain || !a.call.isOpen() {
		return
	}
	switch e := a.found(); {
	case !a.p.view().Alive(a.session):
		a.end(Answer{Err: ErrSessionGone})
	case e.Status == rules.NotEnqueued:
		a.end(Answer{Err: a.none})
	case e.Status == rules.Unserved: // no caller was answered, and the ticket stands again
		a.busy = true
		a.p.discard(rules.SlotKey(a.pool.id, e.Slot.Position), e.Slot.Revision, func(*write) { a.goOn() })
	case e.Status == rules.Spent:
		a.consume(e.Ticket, ErrLeaseExpired)
	case e.Status == rules.Served && e.Slot.InDoubt(a.p.now()):
		a.p.after(a.call, failurePause, a.step)
	case e.Status == rules.Served && a.gaveUp():
		a.decline(e.Slot)
	case e.Status == rules.Served:
		a.markSeen(e.Slot)
	case a.why != nil:
		a.consume(e.Ticket, a.why)
	case e.Ticket.Value.Peer != a.p.self() && e.Ticket.Stands():
		a.busy = true
		a.p.adopt(e.Ticket, a.goOn)
	}
}

// goOn is called when a write has an outcome: the view shows what it was.
func (a *await) goOn() {
	a.busy = false
	a.step()
}

// consume purges the session's ticket. Then the answer is none, unless the ticket was served before.
func (a *await) consume(t *rules.Ticket, none error) {
	a.busy = true
	a.p.putFor(a.call, a.p.purge(t.Key, t.Revision), func(*write) {
		a.none = none
		a.goOn()
	}, a.goOn)
}

// decline returns a slot that was granted after the caller had gone. It keeps a slot
// whose token was the answer to the session's Enqueue.
func (a *await) decline(s *rules.Slot) {
	if s.Value.Ticket == 0 {
		a.end(Answer{Err: a.why})
		return
	}
	a.busy = true
	a.free(func() { a.end(Answer{Err: a.why}) }) // answer after the purge: the session could get the slot with another Await
}

// free takes the await's ticket out of the line, and then purges the slots that were claimed
// for the ticket, except one that another await has marked as seen. It calls done when none
// is left. No caller waits for these purges, so they are repeated if they are refused.
func (a *await) free(done func()) {
	if a.place != 0 {
		a.p.whenLive(func() { a.freeNext(done) })
	}
}

func (a *await) freeNext(done func()) {
	again := func(*write) { a.free(done) }
	pool, session := a.p.view().Pool(a.pool.id), a.p.view().Session(a.session)
	if pool != nil && session != nil {
		if t := pool.Ticket(a.place); t != nil {
			a.p.discard(t.Key, t.Revision, again)
			return
		}
		for _, s := range session.Slots {
			if s.Pool == pool && s.Value.Ticket == a.place && (s.Value.Unseen || s.Author == a.mark) {
				a.p.discard(rules.SlotKey(pool.ID, s.Position), s.Revision, again)
				return
			}
		}
	}
	done()
}

// markSeen clears Unseen in the session's slot, which restarts the lease's ttl. From
// then on the peer that claimed the slot cannot withdraw its claim, and no other await answers with it.
func (a *await) markSeen(s *rules.Slot) {
	if s.Ended(a.p.now()) || s.Expiring(a.p.now()) || s.UnseenOver(a.p.now()) {
		return // the slot is about to be purged, which calls step again
	}
	value, sent := s.Renewed(max(s.Value.Asked, s.Value.TTL).Duration()), a.p.now() // a repeat has written what was left
	value.Unseen = false
	h := Held{Pool: a.pool.id, Lease: value.Lease, Session: a.session, Fence: s.Fence}
	a.busy = true
	a.mark = a.p.putFor(a.call, a.p.value(rules.SlotKey(h.Pool, s.Position), value, s.Revision, value.TTL.Duration()), func(*write) {
		a.none = ErrLeaseExpired
		h.withLease(a.p.leases, a.call, func(s *rules.Slot) { a.grant(s, sent) }, func(error) { a.goOn() })
	}, func() {
		a.mark = 0
		a.goOn()
	}).author()
}

// grant answers with a lease whose ticket has left the line, since the session may return it at once.
func (a *await) grant(s *rules.Slot, sent Instant) {
	if a.gaveUp() {
		a.decline(s)
		return
	}
	grantOf := a.p.grantOf
	if s.Value.Ticket == 0 { // the answer to Enqueue had the token, and it or a renewal may promise more
		grantOf = a.p.grantAgain
	}
	grant, ok := grantOf(s, s.Value.TTL.Duration(), sent)
	if !ok {
		a.end(Answer{Err: ErrUnavailable})
		return
	}
	grant.basis.renewal, grant.Resumed = s.Value.Ticket == 0, false
	a.p.count().Grants++
	a.end(Answer{Grant: grant})
}
