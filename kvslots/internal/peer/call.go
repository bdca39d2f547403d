package peer

import (
	"cmp"
	"maps"
	"slices"
)

type call struct {
	k       *kernel
	id      uint64
	session attendant // the calling client session; nil: none
	quits   quitter   // ends the pending work of the call and answers it; nil: there is none
	limit   timer     // when it is answered ErrUnavailable
	effect  bool      // it may take effect although its session ends, so it is answered with its outcome
	parked  *Answer   // an answer that waits for the session's refresh; nil: none
}

type attendant interface {
	delays() bool       // reports whether an answer has to wait until the session is promised to live
	attend()            // an answer waits
	answered(c *call)   // the call was answered
	takeBack(a *Answer) // an answer that has waited does not reach its caller
}

type calls struct {
	last uint64
	open map[uint64]*call
}

func (k *kernel) beginCall() (c *call, id uint64) {
	k.calls.last++
	c = &call{k: k, id: k.calls.last}
	k.calls.open[c.id] = c
	return c, c.id
}

func (k *kernel) openCalls() []*call {
	return slices.SortedFunc(maps.Values(k.calls.open), byArrival)
}

func byArrival(x, y *call) int { return cmp.Compare(x.id, y.id) }

func (k *kernel) openCall(id uint64) *call { return k.calls.open[id] }

func (k *kernel) countCalls() int { return len(k.calls.open) }

func (c *call) bound(at Instant) { c.k.armFor(&c.limit, at, (*overdueCall)(c)) }

type overdueCall call

func (c *overdueCall) fire() { (*call)(c).end(ErrUnavailable) }

type quitter interface{ quit(why error) }

type quitFunc func(why error)

func (f quitFunc) quit(why error) { f(why) }

// onQuit sets what ends the call early; nil: it is answered with the error.
func (c *call) onQuit(q quitter) { c.quits = q }

// takesEffect records that the call may take effect although its session ends.
func (c *call) takesEffect() { c.effect = true }

func (c *call) hasEffect() bool { return c.effect }

func (c *call) useSession(s attendant) { c.session = s }

func (c *call) isOpen() bool { return c.k.calls.open[c.id] == c }

// kept returns the answer that waits for the session's refresh, or nil.
func (c *call) kept() *Answer { return c.parked }

// dropKept forgets that answer: the call is to be answered with another one.
func (c *call) dropKept() { c.parked = nil }

// end ends a call early: its answer has not been delivered yet.
func (c *call) end(why error) {
	switch {
	case c.parked != nil:
		c.session.takeBack(c.parked)
		c.deliver(Answer{Err: why})
	case c.quits != nil:
		c.quits.quit(why)
	default:
		c.answer(Answer{Err: why})
	}
}

// answer answers a call. If the call is a session's, the answer may have to wait until the session
// is promised to live for longer.
func (c *call) answer(a Answer) {
	switch {
	case !c.isOpen() || c.parked != nil:
	case c.session != nil && impliesAlive(a.Err) && c.session.delays():
		c.park(a)
	default:
		c.deliver(a)
	}
}

func (c *call) park(a Answer) {
	c.parked = &a
	c.session.attend()
}

// impliesAlive reports whether an answer with that error implies that the session is
// alive.
func impliesAlive(err error) bool {
	switch err {
	case nil, ErrNoPool, ErrNoSlot, ErrNotHeld, ErrExpired, ErrEvicted, ErrLimitMismatch, ErrAlreadyEnqueued, ErrNotEnqueued, ErrLeaseExpired,
		ErrMaxLocks, ErrMaxWaiters, ErrMaxLocksPerSession, ErrMaxLocksPerOrigin, ErrMaxTombstones,
		ErrKeyReused:
		return true
	}
	return false
}

func (c *call) deliver(a Answer) {
	delete(c.k.calls.open, c.id)
	c.parked = nil
	c.k.disarm(&c.limit)
	a.Call = c.id
	c.k.ready.Answers = append(c.k.ready.Answers, a)
	if c.session != nil {
		c.session.answered(c)
	}
}
