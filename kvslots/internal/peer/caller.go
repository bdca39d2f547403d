package peer

import (
	"slices"
	"time"

	"github.com/kvslots/kvslots/kvslots/internal/rules"
)

// refuseGrace is how long the refusal of a borrow may wait in a view that is live and as
// new as the call, while a claim is in doubt, or a free permit belongs to a ticket whose
// peer is slow.
const refuseGrace = 1500 * time.Millisecond

// caller is a call that waits for the lease of a borrow.
type caller struct {
	*call
	of       *borrow
	wish     *wish // of a call that has joined the borrow; nil: that of the borrow
	came     Instant
	ends     Instant // of its wait
	current  bool    // the view has been live and as new as the call
	asked    bool    // a read is under way that sets current
	sawFull  bool    // the pool was full at an instant since the call came
	refuseBy Instant // see refuseGrace
	expiry   timer
}

// add adds a call to the callers of a borrow. The pool refuses it when its wait is over.
func (b *borrow) add(c *call, w *wish, wait time.Duration) *caller {
	a := &b.first
	if w != nil {
		a = &caller{wish: w}
	}
	a.call, a.of, a.came, a.ends = c, b, b.p.now(), b.p.now().Add(wait)
	b.confirmed = false // this call may have come later
	b.callers, b.stays = append(b.callers, a), wait > 0
	c.onQuit(a)
	if wait > 0 || b.awaits {
		c.bound(a.ends.Add(patience))
		b.p.arm(&a.expiry, a.ends, a.expire)
	} else if !b.enqueued() {
		b.pool.over = append(b.pool.over, a)
	}
	b.pool.mark()
	return a
}

// isWaitedForSince reports whether a caller came before an instant.
func (b *borrow) isWaitedForSince(at Instant) bool {
	return slices.ContainsFunc(b.callers, func(a *caller) bool { return a.came <= at })
}

func (b *borrow) waitEnds() (at Instant) {
	for _, a := range b.callers {
		at = max(at, a.ends)
	}
	return at
}

// isCurrent reports whether the view has been live and as new as each of the calls. If not, it
// will be.
func (b *borrow) isCurrent() bool {
	current := true
	for _, a := range b.callers {
		current = a.isCurrent() && current
	}
	return current
}

func (a *caller) isCurrent() bool {
	if !a.current && !a.asked {
		a.asked = true
		a.of.p.whenCurrent(a.call, func() {
			a.current = true
			a.of.pool.mark()
		})
	}
	return a.current
}

// refuse answers the callers with an error, each in a view that is live and as new as its call.
func (b *borrow) refuse(why error) {
	for _, a := range slices.Clone(b.callers) {
		if a.isCurrent() {
			a.quit(why)
		}
	}
}

// expire ends the wait of a caller. It is refused, at once if its pool was full at some instant
// since it came. A claim in flight may still be granted.
func (a *caller) expire() {
	b := a.of
	if b.awaits || b.phase == waiting && a.sawFull && b.p.view().Pool(b.pool.id).Requested(b.request) == nil {
		a.quit(ErrNoSlot)
		return
	}
	b.pool.over = append(b.pool.over, a)
	b.pool.mark()
}

// quit answers a caller that waits no longer, and ends the borrow if it was the last one.
func (a *caller) quit(why error) {
	b := a.of
	if b.awaits && a.leavesLine(why) {
		return
	}
	b.callers = without(b.callers, a)
	place := 0
	if why == ErrNoSlot {
		place = b.rank()
	}
	a.end(Answer{Err: why}, place)
	b.leave(why)
}

func (a *caller) end(answer Answer, place int) {
	a.leave()
	if answer.Err == ErrNoSlot || answer.Err == ErrLimitMismatch {
		answer.Refusal = refusalOf(a.of.p.view().Pool(a.of.pool.id), place, a.of.p.now())
	}
	a.answer(answer)
}

// leave ends the caller's part in its borrow.
func (a *caller) leave() {
	a.of.p.disarm(&a.expiry)
	a.onQuit(nil)
}

// again begins the borrow of a call anew, for what is left of its wait.
func (a *caller) again() {
	a.leave()
	a.of.p.borrow(a.call, a.of.pool.id, a.wish, max(0, a.ends.Sub(a.of.p.now())))
}

// reviewRefusals decides about the callers whose wait is over, in order.
func (ps *poolState) reviewRefusals(pool *rules.Pool) {
	if len(ps.over) == 0 {
		return
	}
	over := ps.over
	ps.over = nil
	for _, a := range over {
		if slices.Contains(a.of.callers, a) {
			a.review(pool)
		}
	}
	ps.over = append(slices.DeleteFunc(over, func(a *caller) bool { return !slices.Contains(a.of.callers, a) }), ps.over...)
}

// review refuses a caller whose wait is over, unless there may be a slot for it.
func (a *caller) review(pool *rules.Pool) {
	b := a.of
	if b.phase != arrived && b.phase != waiting || !a.isCurrent() || pool.Requested(b.request) != nil {
		return
	}
	switch err := b.obstacle(pool); {
	case b.phase == arrived && (err != nil || pool.Closing() || !pool.Exists()): // serve refuses it, or goes on
		return
	case err != nil:
		a.quit(err)
		return
	}
	if a.refuseBy == 0 { // counted from here, since the view may have been late until now
		a.refuseBy = b.p.now().Add(refuseGrace)
	}
	b.confirmed = !slices.ContainsFunc(b.callers, func(o *caller) bool { return !o.current })
	if pool.Full() && !pool.InDoubt(b.p.now()) || b.p.now() >= a.refuseBy && b.pool.mayChoose() && b.isShort(pool) {
		a.quit(ErrNoSlot)
	} else {
		b.pool.markLater()
	}
}

// isShort reports whether there is no permit for the borrow. One that may not be claimed yet,
// since a lower position is being purged, is no reason to refuse.
func (b *borrow) isShort(pool *rules.Pool) bool {
	_, ok := b.choose(pool)
	return !ok
}
