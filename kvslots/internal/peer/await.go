package peer

import (
	"cmp"
	"errors"

	"github.com/kvslots/kvslots/kvslots/internal/entry"
	"github.com/kvslots/kvslots/kvslots/internal/rules"
)

// A call of Await is a repeat of its session's Enqueue, with a wait: it has a borrow whose request
// key is the session's id. That borrow waits at the enqueued ticket, for which any peer may claim, and
// resumes the slot that was claimed. Without a slot it takes the ticket out of the line before its
// caller is answered, since the session may enqueue again.

type awaited struct {
	place uint64 // of the ticket that it found first; 0: none
	why   error  // why it ends without a slot; nil while it waits
}

func (p *pools) await(c *call, r Await) {
	p.borrow(c, r.Pool, &wish{session: r.Session, request: r.Session, awaits: true, terms: entry.Terms{Lock: r.Lock}}, r.Wait)
}

// attend does what the session's ticket or slot calls for, in a live view.
func (b *borrow) attend() {
	if b.phase != arrived || !b.isCurrent() {
		return
	}
	pool := b.p.view().Pool(b.pool.id)
	t, s := b.found(pool)
	switch gone := b.isGone(); {
	case !b.p.view().Alive(b.session):
		b.finish(Answer{Err: ErrSessionGone})
	case t != nil && (gone || s == nil && (b.why != nil || t.Value.Spent)):
		if t.Value.Spent {
			b.why = ErrLeaseExpired
		}
		b.drop(t.Key, t.Revision)
	case s != nil && (!s.Serves(t) || gone && !s.Told()): // no caller was told of it
		b.drop(rules.SlotKey(pool.ID, s.Position), s.Revision)
	case s != nil && !gone:
		b.resume(pool, s)
	case t == nil && (gone || b.why != nil && b.place != 0):
		b.finish(Answer{Err: b.why})
	case t == nil:
		b.finish(Answer{Err: ErrNotEnqueued})
	case t.Server() != b.p.self():
		b.to(parting)
		b.p.adopt(t, func() { b.turn(parting) })
	case b.pool.tickets[t.Key] != nil: // of an Enqueue that is under way
		b.pool.markLater()
	default:
		b.ticket = ticket{key: t.Key, place: t.Place}
		put(&b.pool.tickets, t.Key, b)
		b.to(waiting)
	}
}

// found returns what has become of the Enqueue that the borrow waits for. The session may have
// enqueued again since, or under other terms.
func (b *borrow) found(pool *rules.Pool) (t *rules.Ticket, s *rules.Slot) {
	t, s = b.p.view().EnqueuedIn(pool, b.session)
	place := uint64(0)
	switch {
	case pool.Exists() && pool.Terms().Lock != b.terms.Lock && (s != nil || t == nil || !t.Value.Spent):
		return nil, nil
	case s != nil && s.Value.Ticket == 0:
		t = nil
	case t != nil:
		place = t.Place
	case s != nil:
		place = s.Value.Ticket
	}
	if b.place = cmp.Or(b.place, place); b.place != place {
		return nil, nil
	}
	return t, s
}

func (b *borrow) drop(key entry.Key, revision uint64) {
	b.to(parting)
	b.p.discard(key, revision, func(*write) { b.turn(parting) })
}

func (b *borrow) turn(from phase) {
	if b.phase == from {
		b.unbind()
		b.backToQueue()
	}
}

// isGone reports whether the borrow ends for another reason than the end of its wait.
func (b *borrow) isGone() bool { return b.why != nil && b.why != ErrNoSlot }

// leavesLine has the session of an Await leave the line before its last caller, which waits no
// longer, is answered. It reports whether the caller is answered later.
func (a *caller) leavesLine(why error) bool {
	b := a.of
	switch {
	case len(b.callers) > 1, errors.Is(why, ErrSessionGone), errors.Is(why, ErrUnavailable), errors.Is(why, ErrClosed):
		return false
	case b.why != nil, errors.Is(why, ErrPlaceKept): // it is about to be answered
		return b.why != nil || b.phase == resuming
	}
	b.why = why
	if b.pool.requests[b.request] == b { // no other call may share it
		delete(b.pool.requests, b.request)
	}
	a.call.bound(b.p.now().Add(patience))
	if b.turn(waiting); b.phase == arrived {
		b.p.whenLive(b.attend)
	}
	return true
}
