package sim

import (
	"fmt"
	"math/rand/v2"
	"runtime/debug"
	"time"

	"github.com/kvslots/kvslots/kvslots/internal/entry"
	"github.com/kvslots/kvslots/kvslots/internal/peer"
)

// node hosts one peer, as the shell does: it passes inputs to the peer, and carries out
// what the peer's Ready contains.
type node struct {
	s              *Simulation
	number         int
	peer           *peer.Peer // nil if it is not running
	generation     uint64     // counts peers; events of an earlier one are ignored
	clockOffset    Instant    // the peer's clock minus the simulation's
	link           *link
	feed           *feed
	reading        *reading
	calls          map[uint64]*call // by the peer's number of the call
	requests       map[uint64]*call // by call.id; includes calls that the peer has not received yet
	tickAt         Instant          // when the peer wants a Tick; 0 for never
	alarmAt        Instant          // when the event for the Tick is due; 0 if there is none
	pauses         int              // number of faults that keep the peer from running
	deaf           int              // number of faults that lose whatever comes to the peer
	heldInputs     []func(*peer.Peer, Instant)
	closing        bool
	counted        bool    // its counters were added to the checker's
	pausedUntil    Instant // end of its last pause
	suspendedUntil Instant // end of its last suspension
	startedAt      Instant
	flushedAt      Instant    // end of the flush that the last answer waits for
	load           *load      // how it has loaded its view; nil before
	presence       entry.Hash // of the peer, once it has written one
	rebuildsAtLoss uint64     // its counter at the last loss of data
	lastInput      Instant
	steps          int // inputs at lastInput: shows whether inputs lead to new inputs without end
	events         events
	tracedMode     string // of the peer's view
}

// maxInputs is more than any correct run needs.
const maxInputs = 2_000_000

func newNode(s *Simulation, number int) *node {
	n := &node{s: s, number: number, calls: map[uint64]*call{}, requests: map[uint64]*call{}}
	n.link, n.feed, n.reading = &link{n: n}, &feed{n: n, lags: s.chance(1. / 3)}, &reading{n: n}
	return n
}

func (n *node) name() string { return fmt.Sprintf("peer %d", n.number) }

func (n *node) start() {
	if n.peer != nil {
		return
	}
	s := n.s
	n.generation++
	n.startedAt, n.suspendedUntil, n.flushedAt, n.rebuildsAtLoss = s.now, 0, 0, 0
	n.clockOffset = Instant(s.upTo(100 * time.Hour))
	n.closing, n.counted, n.tickAt, n.alarmAt, n.heldInputs, n.load, n.tracedMode = false, false, 0, 0, nil, nil, ""
	n.link.connection++
	*n.link = link{n: n, connection: n.link.connection, up: !s.server.down, server: s.drawServer(), acksLost: n.link.acksLost}
	*n.feed = feed{n: n, lags: n.feed.lags, extraDelay: n.feed.extraDelay, stopped: n.feed.stopped}
	*n.reading = reading{n: n, extraDelay: n.reading.extraDelay}
	c := s.plan.Caps
	n.peer = peer.New(peer.Config{
		Replicated: s.server.replicated(), Sole: s.plan.Sole,
		PoolIdle: s.plan.PoolIdle,
		MaxPools: c.Pools, MaxPoolWaiters: c.PoolWaiters, MaxLocks: c.Locks, MaxWaiters: c.Waiters, MaxSessions: c.Sessions, MaxSessionsPerOrigin: c.SessionsPerOrigin,
		MaxLocksPerSession: c.LocksPerSession, MaxLocksPerOrigin: c.LocksPerOrigin, MaxTombstones: c.Tombstones,
		ResumeGrace: s.plan.Grace,
		Random:      rand.NewPCG(s.plan.Seed^n.generation<<32, uint64(n.number)),
	}, n.clock())
	if s.trace != nil {
		s.tracef(n.name(), "begins")
	}
	n.events = events{node: n, certain: true}
	n.peer.Watch(true)
	n.drain()
}

func (n *node) clock() Instant { return n.s.now + n.clockOffset }

func (n *node) simTime(at Instant) Instant { return at - n.clockOffset }

func (n *node) serving() bool { return n.peer != nil && !n.closing }

// alive returns a function that runs only if the present peer still does.
func (n *node) alive(run func()) func() {
	generation := n.generation
	return func() {
		if n.peer != nil && n.generation == generation {
			run()
		}
	}
}

// input passes an input to the peer, now or when its pause ends.
func (n *node) input(f func(*peer.Peer, Instant)) {
	switch {
	case n.peer == nil:
	case n.pauses > 0:
		n.heldInputs = append(n.heldInputs, f)
	default:
		n.run(f)
	}
}

func (n *node) run(f func(*peer.Peer, Instant)) {
	n.s.inputs++
	if n.lastInput != n.s.now {
		n.lastInput, n.steps = n.s.now, 0
	}
	if n.steps++; n.steps > 100_000 || n.s.inputs > maxInputs {
		n.s.fail("busy", "%s received %d inputs at one instant, and all peers %d in this run", n.name(), n.steps, n.s.inputs)
		return
	}
	defer n.recover()
	f(n.peer, n.clock())
	n.drain()
	n.observeLoad()
}

func (n *node) recover() {
	if v := recover(); v != nil {
		n.s.fail("panic", "%s: %v\n%s", n.name(), v, debug.Stack())
	}
}

func (n *node) drain() {
	r := n.peer.Ready()
	n.traceView(&r)
	for i := range r.Writes {
		n.link.send(r.Writes[i])
	}
	for i := range r.Answers {
		n.answered(&r.Answers[i])
	}
	if r.Reading != nil {
		n.reading.start(r.Reading.Number, r.Reading.From)
	}
	if r.Joined != 0 {
		n.reading.join(r.Joined)
	}
	if n.s.trace != nil {
		for _, l := range r.Logs {
			n.s.tracef(n.name(), "logs %s: %s", l.Message, l.Reason)
		}
	}
	n.events.note(r.Events)
	n.schedule(r.WakeAt)
}

func (n *node) answered(a *peer.Answer) {
	c := n.calls[a.Call]
	if c == nil {
		n.s.fail("answers", "%s answers call %d, which is not open", n.name(), a.Call)
		return
	}
	delete(n.calls, a.Call)
	c.decided = n.s.now
	if n.s.plan.Flush.Delay == 0 || needsNoFlush(a) {
		c.finish(*a)
	} else {
		n.flush(c, *a)
	}
}

func (n *node) schedule(at Instant) {
	if n.tickAt = 0; at == 0 {
		return
	}
	const grain = 100 * time.Microsecond // finest resolution of the shell's timers
	n.tickAt = max(n.simTime(at), n.s.now.Add(grain))
	if n.alarmAt == 0 || n.tickAt < n.alarmAt {
		n.setAlarm()
	}
}

func (n *node) setAlarm() {
	at := n.tickAt
	n.alarmAt = at
	n.s.at(at, n.alive(func() {
		if n.alarmAt != at {
			return
		}
		n.alarmAt = 0
		switch {
		case n.tickAt == 0:
		case n.tickAt <= n.s.now:
			n.input(func(p *peer.Peer, now Instant) { p.Tick(now) })
		default:
			n.setAlarm()
		}
	}))
}

// pause stops the peer for a while. Its inputs wait. A suspended machine's timers stand
// still, but not the clock that the shell reads.
func (n *node) pause(d time.Duration, suspended bool) {
	n.pauses++
	n.s.check.lines.noteInterruption()
	n.s.after(d, n.alive(func() { n.resume(suspended) }))
}

func (n *node) resume(suspended bool) {
	if n.pauses--; n.pauses > 0 {
		return
	}
	if suspended {
		n.suspendedUntil = n.s.now
	}
	n.pausedUntil = n.s.now
	n.s.check.lines.noteInterruption()
	held := n.heldInputs
	n.heldInputs = nil
	for _, f := range held {
		if n.peer == nil || n.s.failed != nil {
			return
		}
		n.run(f)
	}
	if n.alarmAt == 0 && n.peer != nil {
		n.run(func(p *peer.Peer, now Instant) { p.Tick(now) })
	}
	n.reading.schedulePoll()
}

func (n *node) kill() {
	if n.peer == nil {
		return
	}
	n.s.tracef(n.name(), "dies")
	if n.s.chance(0.5) {
		n.link.connection++
	}
	n.stop()
}

func (n *node) stop() {
	n.count()
	n.s.check.lines.noteInterruption()
	n.peer, n.pauses, n.heldInputs = nil, 0, nil
	n.generation++
	n.link.up = false
	clear(n.calls)
	for _, c := range valuesInOrder(n.requests) {
		c.finish(peer.Answer{Err: errCrashed})
	}
}

func (n *node) close() {
	if n.peer == nil || n.closing {
		return
	}
	n.s.tracef(n.name(), "closes")
	n.closing = true
	n.input(func(p *peer.Peer, now Instant) { p.Close(now) })
	patience := n.s.now.Add(5 * time.Second)
	var look func()
	look = n.alive(func() {
		if n.peer.Idle() {
			n.s.met.add("closed idle")
			n.stop()
		} else if n.s.now > patience {
			n.s.met.add("closed busy")
			n.stop()
		} else {
			n.s.after(20*time.Millisecond, n.alive(look))
		}
	})
	n.s.after(time.Millisecond, look)
}

func (n *node) count() {
	if n.peer == nil || n.counted {
		return
	}
	n.counted = true
	n.countPhases()
	n.s.check.addCounters(n, n.peer.Counters())
}

func (n *node) countPhases() {
	name := func(t peer.Transition) string { return "phase: " + t.From + " → " + t.To }
	for _, t := range peer.Transitions() {
		n.s.met.addN(name(t), 0)
	}
	for t, times := range n.peer.Taken() {
		if _, allowed := n.s.met[name(t)]; !allowed {
			n.s.fail("transition", "%s, by a borrow of %s, is not a transition that a peer may take", name(t), n.name())
		}
		n.s.met.addN(name(t), times)
	}
}
