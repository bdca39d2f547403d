package peer

import (
	"cmp"
	"slices"

	"github.com/kvslots/kvslots/kvslots/internal/entry"
)

// call is a request of a caller that is not answered yet.
type call struct {
	id      uint64
	session entry.Hash      // the client session that asks, if any: see sessionState
	quit    func(why error) // ends what is under way for it, and has it answered; nil: there is nothing to end
	limit   timer           // when it is answered ErrUnavailable
	undo    func()          // gives back what a parked answer grants; may be nil
	effect  bool            // it may have its effect although its session ends: its outcome is told
	unsure  bool            // a purge for it may have been written without its knowing
	parked  bool            // its answer waits for the session's refresh
}

// calls are the open calls.
type calls struct {
	last     uint64
	open     map[uint64]*call
	creating map[entry.Hash]entry.Hash // origins of the client sessions that are being created
}

func (p *Peer) newCall() *call {
	p.calls.last++
	c := &call{id: p.calls.last}
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
func (p *Peer) bound(c *call, at Instant) {
	c.limit.fire = func() { p.quit(c, ErrUnavailable) }
	p.timers.start(&c.limit, at)
}

// quit ends a call that is not answered yet.
func (p *Peer) quit(c *call, why error) {
	switch {
	case c.parked && why != ErrUnavailable:
		p.unpark(c, why)
	case c.parked:
		p.unpark(c, ErrUnavailable)
	case c.quit != nil:
		quit := c.quit
		c.quit = nil
		quit(why)
	default:
		p.answer(c, Answer{Err: why})
	}
}

// answer answers a call. The answer to a session's call waits until the bucket
// promises that the session lives on for long enough.
func (p *Peer) answer(c *call, a Answer) {
	if p.calls.open[c.id] != c || c.parked {
		return
	}
	if !c.session.IsZero() && promises(a.Err) && p.park(c, a) {
		return
	}
	p.deliver(c, a)
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

func (p *Peer) deliver(c *call, a Answer) {
	delete(p.calls.open, c.id)
	p.timers.stop(&c.limit)
	a.Call = c.id
	p.out.ready.Answers = append(p.out.ready.Answers, a)
	if !c.session.IsZero() {
		p.leaveSession(c)
	}
}
