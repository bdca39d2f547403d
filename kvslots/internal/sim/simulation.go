package sim

import (
	"regexp"
	"slices"
	"sort"
	"time"

	"github.com/kvslots/kvslots/kvslots/internal/entry"
	"github.com/kvslots/kvslots/kvslots/internal/peer"
)

// start is the time at which the simulation's clock begins. It is not 0, because
// several fields use 0 for "none".
const start = Instant(time.Hour)

type Simulation struct {
	random     // of faults and delays
	plan       Plan
	now        Instant
	queue      queue
	server     *server
	nodes      []*node
	clients    []client
	check      *checker
	faultState faultState
	met        Coverage
	trace      *trace // nil without Options.Trace
	inputs     uint64
	hashCount  uint64
	ending     bool // clients finish their work and start nothing new
	unfinished int  // number of clients that have not finished
	failed     *Failure
}

type Result struct {
	Failure *Failure      // nil if every check passed
	Virtual time.Duration // how long it took by the simulation's clock
	Inputs  uint64        // to all peers
	Met     Coverage
	Trace   *trace
}

func Run(p Plan, o Options) Result {
	s := newSimulation(p, o)
	for _, n := range s.nodes {
		s.after(s.upTo(300*time.Millisecond), n.start)
	}
	s.newClients()
	s.scheduleFaults()
	s.after(checkEvery, s.check.checkProgress)
	s.runUntil(start.Add(p.Length))
	s.finish()
	for _, n := range s.nodes {
		n.count()
	}
	s.server.count()
	return Result{Failure: s.failed, Virtual: s.now.Sub(start), Inputs: s.inputs, Met: s.met, Trace: s.trace}
}

func newSimulation(p Plan, o Options) *Simulation {
	s := &Simulation{plan: p, now: start, random: newRandom(p.Seed, 0x72756e)}
	s.met = Coverage{}
	if o.Trace {
		s.trace = newTrace(o)
	}
	s.faultState.settleTime = 8*time.Second + 6*s.maxLatency()
	s.check = newChecker(s)
	s.server = newServer(s)
	for i := range p.Nodes {
		s.nodes = append(s.nodes, newNode(s, i))
	}
	return s
}

type Options struct {
	Trace     bool           // record a trace
	KeepLines int            // number of trace lines to keep, the last ones; 0 keeps all
	About     *regexp.Regexp // what a line about an entry or a call must contain to be kept; nil: anything
}

func (s *Simulation) runUntil(end Instant) {
	for s.failed == nil && !s.queue.empty() && s.queue.next() <= end {
		e := s.queue.take()
		s.now = max(s.now, e.at)
		e.run()
	}
	if s.failed == nil {
		s.now = max(s.now, end)
	}
}

// finish waits until all faults are over and all clients have finished, and then until
// the last lease and session must have ended.
func (s *Simulation) finish() {
	if !s.plan.FaultFree() {
		s.faultState.disturb(s.now)
	}
	s.ending = true
	for s.failed == nil && s.faultState.active > 0 {
		s.runUntil(s.now.Add(time.Second))
	}
	limit := s.now.Add(2*s.plan.Clients.Wait + 2*s.plan.Clients.TTL + 2*time.Minute)
	for s.failed == nil && s.now < limit && (s.unfinished > 0 || len(s.check.openCalls) > 0) {
		s.runUntil(s.now.Add(time.Second))
	}
	if s.failed != nil {
		return
	}
	if s.unfinished > 0 || len(s.check.openCalls) > 0 {
		s.fail("finish", "%d clients and %d calls have not finished %v after the last fault", s.unfinished, len(s.check.openCalls), s.now.Sub(limit)+3*time.Minute)
		return
	}
	s.runUntil(s.now.Add(s.plan.Clients.TTL + 4*s.plan.Clients.Idle + 3*time.Minute))
	if s.failed == nil {
		s.check.checkEnd()
	}
}

func (s *Simulation) after(d time.Duration, run func()) { s.queue.add(s.now.Add(d), run) }

func (s *Simulation) at(at Instant, run func()) { s.queue.add(max(at, s.now), run) }

// delay draws a delay between half and one and a half times the typical one, plus a
// spike if the plan has them.
func (s *Simulation) delay(typical time.Duration) time.Duration {
	d := typical/2 + s.upTo(typical)
	if s.chance(s.plan.Net.Spikes) {
		d += s.upTo(20 * typical)
		s.met.add("trap: delay spike")
	}
	return d
}

// maxLatency bounds the time from a write until every peer has applied it, when no
// fault is active.
func (s *Simulation) maxLatency() time.Duration {
	n := s.plan.Net
	d := 2*(n.Uplink+n.Ack+n.Feed) + n.Lag
	if n.Spikes > 0 {
		d += 20 * (n.Uplink + n.Ack + n.Feed)
	}
	return d
}

func (s *Simulation) newHash() entry.Hash {
	s.hashCount++
	return numberedHash(s.plan.Seed, s.hashCount)
}

// numberedHash returns a hash that differs visibly from others in a trace. SHA-256
// would cost more than the rest of a call.
func numberedHash(seed, n uint64) (h entry.Hash) {
	n = n*0x9e3779b97f4a7c15 ^ seed
	for i := range 8 {
		h[i] = byte(n >> (8 * i))
		h[15-i] = byte((n * 0xbf58476d1ce4e5b9) >> (8 * i))
	}
	return h
}

// faultState tracks when faults were active. The checker demands progress only when
// their consequences are over.
type faultState struct {
	active        int           // number of active faults
	noneSince     Instant       // when the last fault ended
	settleTime    time.Duration // how long the consequences of a fault last
	peerFaults    int           // active faults that kill or pause a single peer
	noOthersSince Instant       // when the last fault of another kind ended
}

func (c *faultState) begin() { c.active++ }

func (c *faultState) end(now Instant) {
	c.active--
	c.noneSince, c.noOthersSince = now, now
}

// beginPeerFault and endPeerFault are for a fault that kills or pauses a single peer.
func (c *faultState) beginPeerFault() {
	c.active++
	c.peerFaults++
}

func (c *faultState) endPeerFault(now Instant) {
	c.active--
	c.peerFaults--
	c.noneSince = now
}

func (c *faultState) disturb(now Instant) {
	c.noneSince, c.noOthersSince = max(c.noneSince, now), max(c.noOthersSince, now)
}

// settledAt reports whether at that time all faults and their consequences were over.
func (c *faultState) settledAt(at Instant) bool { return c.active == 0 && c.settledFrom() <= at }

// settledFrom returns when the consequences of the last fault are over, if none is active.
func (c *faultState) settledFrom() Instant { return c.noneSince.Add(c.settleTime) }

// othersSettledAt is settledAt without the faults that kill or pause a single peer.
func (c *faultState) othersSettledAt(at Instant) bool {
	return c.active == c.peerFaults && c.noOthersSince.Add(c.settleTime) <= at
}

// Instant is a reading of the simulation's clock. Each node's peer has a clock of its
// own.
type Instant = peer.Instant

type event struct {
	at  Instant
	run func()
}

// queue contains the scheduled events, the last one first, so that those of the near
// future, which are most frequent, are inserted near the end of the slice. Events of
// the same time run in the order in which they were added.
type queue []event

func (q *queue) add(at Instant, run func()) {
	i := sort.Search(len(*q), func(i int) bool { return (*q)[i].at <= at })
	*q = slices.Insert(*q, i, event{at, run})
}

func (q queue) empty() bool { return len(q) == 0 }

func (q queue) next() Instant { return q[len(q)-1].at }

func (q *queue) take() event {
	last := len(*q) - 1
	e := (*q)[last]
	(*q)[last] = event{}
	*q = (*q)[:last]
	return e
}
