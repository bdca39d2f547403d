package peer

import (
	"cmp"
	"maps"
	"slices"

	"github.com/kvslots/kvslots/kvslots/internal/entry"
)

// call is a caller's request that is not answered yet.
type call struct {
	k       *kernel
	id      uint64
	session entry.Hash // the calling client session, if any: see sessionState
	quit    quitter    // ends the pending work of the call and answers it; nil: there is none
	reload  func()     // called when the view has become live again; may be nil
	limit   timer      // when it is answered ErrUnavailable
	effect  bool       // it may take effect although its session ends, so it is answered with its outcome
	parked  *Answer    // an answer that waits for the session's refresh; nil: none
}

// calls holds the open calls.
type calls struct {
	k    *kernel
	last uint64
	open map[uint64]*call
}

func (s *calls) begin() *call {
	s.last++
	c := &call{k: s.k, id: s.last}
	s.open[c.id] = c
	return c
}

// all returns the open calls in order of arrival.
func (s *calls) all() []*call {
	return slices.SortedFunc(maps.Values(s.open), func(x, y *call) int { return cmp.Compare(x.id, y.id) })
}

// bound sets when the call is answered ErrUnavailable.
func (c *call) bound(at Instant) {
	c.limit.of = (*overdueCall)(c)
	c.k.timers.start(&c.limit, at)
}

// overdueCall is a call that has taken too long.
type overdueCall call

func (c *overdueCall) fire() { (*call)(c).end(ErrUnavailable) }

type quitter interface{ quit(why error) }

type quitFunc func(why error)

func (f quitFunc) quit(why error) { f(why) }

func (c *call) isOpen() bool { return c.k.calls.open[c.id] == c }

// end ends a call early: its answer has not been delivered yet.
func (c *call) end(why error) {
	switch {
	case c.parked != nil:
		c.k.takeBack(c.parked)
		c.deliver(Answer{Err: why})
	case c.quit != nil:
		c.quit.quit(why)
	default:
		c.answer(Answer{Err: why})
	}
}

// answer answers a call. If the call is a session's, the answer may have to wait for
// the session's refresh: see park.
func (c *call) answer(a Answer) {
	if !c.isOpen() || c.parked != nil {
		return
	}
	if !c.session.IsZero() && impliesAlive(a.Err) && c.k.above.park(c, a) {
		return
	}
	c.deliver(a)
}

// impliesAlive reports whether an answer with that error implies that the session is
// alive.
func impliesAlive(err error) bool {
	switch err {
	case nil, ErrNoPool, ErrNoSlot, ErrNotHeld, ErrLimitMismatch, ErrAlreadyEnqueued, ErrNotEnqueued, ErrLeaseExpired,
		ErrMaxLocks, ErrMaxWaiters, ErrMaxLocksPerSession, ErrMaxLocksPerOrigin, ErrMaxTombstones,
		ErrKeyReused:
		return true
	}
	return false
}

func (c *call) deliver(a Answer) {
	delete(c.k.calls.open, c.id)
	c.parked = nil
	c.k.timers.stop(&c.limit)
	a.Call = c.id
	c.k.out.ready.Answers = append(c.k.out.ready.Answers, a)
	if !c.session.IsZero() {
		c.k.above.delivered(c)
	}
}

// decide calls step now if the view is live, and if step returns false, or the view is not live,
// when it is live and as new as now: then current is set.
func (c *call) decide(step func(current bool) (decided bool)) {
	if c.k.feed.mode == live && step(false) {
		return
	}
	c.k.reads.whenCurrent(c, func() { step(true) })
}
