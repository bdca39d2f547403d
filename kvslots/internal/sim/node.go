package sim

import (
	"fmt"
	"math/rand/v2"
	"runtime/debug"
	"time"

	"github.com/kvslots/kvslots/kvslots/internal/peer"
)

// node hosts one peer, as the shell does: it hands it its inputs, and does what
// the peer's Ready says.
type node struct {
	s        *Simulation
	number   int
	peer     *peer.Peer // nil: not running
	life     uint64     // counts peers; events of an earlier one are void
	offset   Instant    // of the peer's clock against the simulation's
	link     *link
	watch    *watch
	calls    map[uint64]*call // by the peer's number
	asked    map[uint64]*call // by our own: also what the peer has not seen yet
	wake     Instant          // when the peer wants a Tick; 0: not at all
	alarm    Instant          // of the event for it; 0: none
	pauses   int              // faults that keep the peer from running
	held     []func(*peer.Peer, Instant)
	leaves   bool    // it is closing
	tallied  bool    // its counters were taken down
	stood    Instant // until when it last stood still
	slept    Instant // until when its machine was last suspended
	born     Instant
	rebuilds uint64 // when the stream last lost something
	watcher
}

// maxInputs is more than a run ever needs.
const maxInputs = 2_000_000

// watcher notices a peer that does not let the time go on.
type watcher struct {
	last  Instant
	steps int
}

func newNode(s *Simulation, number int) *node {
	n := &node{s: s, number: number, calls: map[uint64]*call{}, asked: map[uint64]*call{}}
	n.link = &link{n: n}
	n.watch = &watch{n: n}
	n.watch.slow = s.chance(1. / 3)
	return n
}

func (n *node) name() string { return fmt.Sprintf("peer %d", n.number) }

// begin starts a peer.
func (n *node) begin() {
	if n.peer != nil {
		return
	}
	s := n.s
	n.life++
	n.born, n.slept, n.rebuilds = s.now, 0, 0
	n.offset = Instant(s.upTo(100 * time.Hour))
	n.leaves, n.tallied, n.wake, n.alarm, n.held = false, false, 0, 0, nil
	n.link.number++
	n.link.buffered, n.link.free, n.link.stalled = nil, 0, 0
	n.link.up = !s.server.down
	*n.watch = watch{n: n, slow: n.watch.slow, late: n.watch.late}
	c := s.plan.Caps
	n.peer = peer.New(peer.Config{
		Replicated: s.server.replicated(), Sole: s.plan.Sole,
		MaxLocks: c.Locks, MaxWaiters: c.Waiters, MaxSessions: c.Sessions, MaxSessionsPerOrigin: c.SessionsPerOrigin,
		Random: rand.NewPCG(s.plan.Seed^n.life<<32, uint64(n.number)),
	}, n.clock())
	if s.trace != nil {
		s.note(n.name(), "begins")
	}
	n.drain()
}

// clock is the peer's monotonic clock.
func (n *node) clock() Instant { return n.s.now + n.offset }

// time is a reading of the peer's clock as one of the simulation's.
func (n *node) time(at Instant) Instant { return at - n.offset }

// usable reports whether a client finds the node.
func (n *node) usable() bool { return n.peer != nil && !n.leaves }

// alive wraps an event that is void once this peer is gone.
func (n *node) alive(run func()) func() {
	life := n.life
	return func() {
		if n.peer != nil && n.life == life {
			run()
		}
	}
}

// input hands the peer an input, now or when it runs again.
func (n *node) input(f func(*peer.Peer, Instant)) {
	switch {
	case n.peer == nil:
	case n.pauses > 0:
		n.held = append(n.held, f)
	default:
		n.do(f)
	}
}

func (n *node) do(f func(*peer.Peer, Instant)) {
	n.s.inputs++
	if n.last != n.s.now {
		n.last, n.steps = n.s.now, 0
	}
	if n.steps++; n.steps > 100_000 || n.s.inputs > maxInputs {
		n.s.fail("busy", "%s has had %d inputs in one instant, and all peers %d", n.name(), n.steps, n.s.inputs)
		return
	}
	defer n.recover()
	f(n.peer, n.clock())
	n.drain()
}

// recover makes a peer's panic a failure of the run.
func (n *node) recover() {
	if v := recover(); v != nil {
		n.s.fail("panic", "%s: %v\n%s", n.name(), v, debug.Stack())
	}
}

// drain does what the peer wants done.
func (n *node) drain() {
	r := n.peer.Ready()
	for i := range r.Writes {
		n.link.send(r.Writes[i])
	}
	for i := range r.Answers {
		n.answered(&r.Answers[i])
	}
	if r.Watch != nil {
		n.s.met.add("watch asked for")
		n.watch.start(r.Watch.Number, r.Watch.From)
	}
	if n.s.trace != nil {
		for _, l := range r.Logs {
			n.s.note(n.name(), "logs %s: %s", l.Message, l.Reason)
		}
	}
	n.schedule(r.WakeAt)
}

func (n *node) answered(a *peer.Answer) {
	c := n.calls[a.Call]
	if c == nil {
		n.s.fail("answers", "%s answers call %d, which is not open", n.name(), a.Call)
		return
	}
	delete(n.calls, a.Call)
	c.finish(*a)
}

// schedule notes when the peer wants a Tick.
func (n *node) schedule(at Instant) {
	if n.wake = 0; at == 0 {
		return
	}
	const grain = 100 * time.Microsecond // a shell is no faster
	n.wake = max(n.time(at), n.s.now.Add(grain))
	if n.alarm == 0 || n.wake < n.alarm {
		n.setAlarm()
	}
}

func (n *node) setAlarm() {
	at := n.wake
	n.alarm = at
	n.s.at(at, n.alive(func() {
		if n.alarm != at {
			return
		}
		n.alarm = 0
		switch {
		case n.wake == 0:
		case n.wake <= n.s.now:
			n.input(func(p *peer.Peer, now Instant) { p.Tick(now) })
		default:
			n.setAlarm()
		}
	}))
}

// pause keeps the peer from running. Its inputs wait. If its machine is
// suspended, its timers stand still as well; the clock goes on, for the shell reads
// one that does.
func (n *node) pause(d time.Duration, suspended bool) {
	n.pauses++
	n.s.check.troubled()
	n.s.after(d, n.alive(func() { n.resume(d, suspended) }))
}

func (n *node) resume(d time.Duration, suspended bool) {
	if n.pauses--; n.pauses > 0 {
		return
	}
	if suspended {
		n.slept = n.s.now
	}
	n.stood = n.s.now
	n.s.check.troubled()
	held := n.held
	n.held = nil
	for _, f := range held {
		if n.peer == nil || n.s.failed != nil {
			return
		}
		n.do(f)
	}
	if n.alarm == 0 && n.peer != nil {
		n.do(func(p *peer.Peer, now Instant) { p.Tick(now) })
	}
	n.watch.wake()
}

// kill ends the peer at once. Its clients' connections break.
func (n *node) kill() {
	if n.peer == nil {
		return
	}
	n.s.note(n.name(), "dies")
	if n.s.chance(0.5) {
		n.link.number++
	}
	n.gone()
}

func (n *node) gone() {
	n.count()
	n.s.check.troubled()
	n.peer, n.pauses, n.held = nil, 0, nil
	n.life++
	n.link.up = false
	clear(n.calls)
	for _, c := range inOrder(n.asked) {
		c.finish(peer.Answer{Err: errCrashed})
	}
}

// leave closes the peer, which ends what it has begun.
func (n *node) leave() {
	if n.peer == nil || n.leaves {
		return
	}
	n.s.note(n.name(), "closes")
	n.leaves = true
	n.input(func(p *peer.Peer, now Instant) { p.Close(now) })
	patience := n.s.now.Add(5 * time.Second)
	var look func()
	look = n.alive(func() {
		if n.peer.Idle() {
			n.s.met.add("closed idle")
			n.gone()
		} else if n.s.now > patience {
			n.s.met.add("closed busy")
			n.gone()
		} else {
			n.s.after(20*time.Millisecond, n.alive(look))
		}
	})
	n.s.after(time.Millisecond, look)
}

// count takes the peer's counters down, before it goes.
func (n *node) count() {
	if n.peer == nil || n.tallied {
		return
	}
	n.tallied = true
	n.countPhases()
	n.s.check.counters(n, n.peer.Counters())
}

// countPhases takes down which transitions the peer's borrows took.
func (n *node) countPhases() {
	name := func(t peer.Transition) string { return "phase: " + t.From + " → " + t.To }
	for _, t := range peer.Transitions() {
		n.s.met.addN(name(t), 0)
	}
	for t, times := range n.peer.Taken() {
		if _, allowed := n.s.met[name(t)]; !allowed {
			n.s.fail("transition", "%s: a borrow of %s, which is no transition", name(t), n.name())
		}
		n.s.met.addN(name(t), times)
	}
}
