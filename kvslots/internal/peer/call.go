package peer

import (
	"cmp"
	"maps"
	"slices"

	"github.com/kvslots/kvslots/kvslots/internal/entry"
)

// call is a caller's request that is not answered yet.
type call struct {
	p            *Peer
	id           uint64
	session      entry.Hash      // the calling client session, if any: see sessionState
	quit         func(why error) // ends the pending work of the call and answers it; nil: there is none
	reload       func()          // called when the view has become live again; may be nil
	borrow       *borrow         // of a call that borrows
	limit        timer           // when it is answered ErrUnavailable
	effect       bool            // it may take effect although its session ends, so it is answered with its outcome
	mayBeWritten bool            // an earlier copy of its refused write may have been written, and skipped by the view
	parked       *Answer         // an answer that waits for the session's refresh; nil: none
}

// calls holds the open calls.
type calls struct {
	p           *Peer
	last        uint64
	open        map[uint64]*call
	registering map[entry.Hash]struct{}   // the pools that this peer registers and that the view does not show yet
	creating    map[entry.Hash]entry.Hash // the same for client sessions, with the origin of each
}

func (s *calls) begin() *call {
	s.last++
	c := &call{p: s.p, id: s.last}
	s.open[c.id] = c
	return c
}

// all returns the open calls in order of arrival.
func (s *calls) all() []*call {
	return slices.SortedFunc(maps.Values(s.open), func(x, y *call) int { return cmp.Compare(x.id, y.id) })
}

// bound sets when the call is answered ErrUnavailable.
func (c *call) bound(at Instant) {
	c.limit.fire = func() { c.end(ErrUnavailable) }
	c.p.timers.start(&c.limit, at)
}

func (c *call) isOpen() bool { return c.p.calls.open[c.id] == c }

// end ends a call early: its answer has not been delivered yet.
func (c *call) end(why error) {
	switch {
	case c.parked != nil:
		c.p.takeBack(c.parked)
		c.deliver(Answer{Err: why})
	case c.quit != nil:
		c.quit(why)
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
	if !c.session.IsZero() && impliesAlive(a.Err) && c.park(a) {
		return
	}
	c.deliver(a)
}

// impliesAlive reports whether an answer with that error implies that the session is
// alive.
func impliesAlive(err error) bool {
	switch err {
	case nil, ErrNoPool, ErrNoSlot, ErrNotHeld, ErrLimitMismatch, ErrAlreadyEnqueued, ErrNotEnqueued, ErrLeaseExpired,
		ErrMaxLocks, ErrMaxWaiters:
		return true
	}
	return false
}

func (c *call) deliver(a Answer) {
	delete(c.p.calls.open, c.id)
	c.parked = nil
	c.p.timers.stop(&c.limit)
	a.Call = c.id
	c.p.out.ready.Answers = append(c.p.out.ready.Answers, a)
	if !c.session.IsZero() {
		c.leaveSession()
	}
}

// when calls do if shown returns true, now or when the view is exact and as new as
// now; otherwise it calls not.
func (c *call) when(shown func() bool, do, not func()) {
	if c.p.watch.mode == live && shown() {
		do()
		return
	}
	c.p.reads.whenCurrent(c, func() {
		if shown() {
			do()
		} else {
			not()
		}
	})
}
