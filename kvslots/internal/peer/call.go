package peer

import (
	"cmp"
	"slices"

	"github.com/kvslots/kvslots/kvslots/internal/entry"
)

// call is a request of a caller that is not answered yet.
type call struct {
	p       *Peer
	id      uint64
	session entry.Hash      // the client session that asks, if any: see sessionState
	quit    func(why error) // ends what is under way for it, and has it answered in the end; nil: there is nothing to end
	reload  func()          // called when the view has become live again; may be nil
	borrow  *borrow         // that it asked for, if any
	limit   timer           // when it is answered ErrUnavailable
	effect  bool            // it may have its effect although its session ends: its outcome is told
	unsure  bool            // a purge for it may have been written without its knowing
	parked  *Answer         // waits for the session's refresh; nil: none
}

// calls are the open calls.
type calls struct {
	p        *Peer
	last     uint64
	open     map[uint64]*call
	creating map[entry.Hash]entry.Hash // origins of the client sessions that are being created
}

func (p *Peer) newCall() *call {
	p.calls.last++
	c := &call{p: p, id: p.calls.last}
	p.calls.open[c.id] = c
	return c
}

// all are the open calls, in their order.
func (s *calls) all() []*call {
	list := make([]*call, 0, len(s.open))
	for _, c := range s.open {
		list = append(list, c)
	}
	slices.SortFunc(list, func(x, y *call) int { return cmp.Compare(x.id, y.id) })
	return list
}

// bound has a call answered ErrUnavailable at that time.
func (c *call) bound(at Instant) {
	c.limit.fire = func() { c.end(ErrUnavailable) }
	c.p.timers.start(&c.limit, at)
}

// isOpen reports whether the call is not answered yet.
func (c *call) isOpen() bool { return c.p.calls.open[c.id] == c }

// end ends a call that is not answered yet.
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

// answer answers a call. The answer to a session's call waits until the bucket
// promises that the session lives on for long enough.
func (c *call) answer(a Answer) {
	if !c.isOpen() || c.parked != nil {
		return
	}
	if !c.session.IsZero() && promises(a.Err) && c.park(a) {
		return
	}
	c.deliver(a)
}

// promises reports whether an answer tells a session's client that its session is
// alive.
func promises(err error) bool {
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
