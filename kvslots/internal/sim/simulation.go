package sim

import (
	"math/rand/v2"
	"time"

	"github.com/kvslots/kvslots/kvslots/internal/entry"
)

// start is where the simulation's clock begins: an Instant of 0 means "none" in
// several places.
const start = Instant(time.Hour)

// Simulation is one run.
type Simulation struct {
	plan    Plan
	now     Instant
	queue   queue
	rng     *rand.Rand // of everything but the clients, whose actions a fault less must not change
	server  *server
	nodes   []*node
	clients []client
	check   *checker
	calm    calm
	met     Coverage
	trace   *trace // nil: none
	inputs  uint64
	hashes  uint64
	ending  bool // clients finish what they have begun
	busy    int  // clients that have not finished
	failed  *Failure
}

// Result is what came of a run.
type Result struct {
	Failure *Failure // nil if every check held
	Virtual time.Duration
	Inputs  uint64
	Met     Coverage
	Trace   *trace
}

// Run runs a plan to its end.
func Run(p Plan, o Options) Result {
	s := newSimulation(p, o)
	for _, n := range s.nodes {
		s.after(s.upTo(300*time.Millisecond), n.begin)
	}
	s.newClients()
	s.scheduleFaults()
	s.after(checkEvery, s.check.look)
	s.runUntil(start.Add(p.Length))
	s.finish()
	for _, n := range s.nodes {
		n.count()
	}
	s.server.count()
	return Result{Failure: s.failed, Virtual: s.now.Sub(start), Inputs: s.inputs, Met: s.met, Trace: s.trace}
}

// newSimulation is a plan's simulation before anything has happened.
func newSimulation(p Plan, o Options) *Simulation {
	s := &Simulation{plan: p, now: start, rng: rand.New(rand.NewPCG(p.Seed, 0x72756e))}
	s.met = Coverage{}
	if o.Trace {
		s.trace = newTrace(o.Keep)
	}
	s.calm.settle = 8*time.Second + 6*s.slowest()
	s.check = newChecker(s)
	s.server = newServer(s)
	for i := range p.Nodes {
		s.nodes = append(s.nodes, newNode(s, i))
	}
	return s
}

// Options say what a run records.
type Options struct {
	Trace bool // record what happens
	Keep  int  // how many of the last lines are kept; 0: all
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

// finish lets the faults end and the clients finish, and then waits until
// everything that is left has expired.
func (s *Simulation) finish() {
	s.calm.pulse(s.now)
	s.ending = true
	for s.failed == nil && s.calm.active > 0 {
		s.runUntil(s.now.Add(time.Second))
	}
	limit := s.now.Add(2*s.plan.Clients.Wait + 2*s.plan.Clients.TTL + 2*time.Minute)
	for s.failed == nil && s.now < limit && (s.busy > 0 || s.check.open() > 0) {
		s.runUntil(s.now.Add(time.Second))
	}
	if s.failed != nil {
		return
	}
	if s.busy > 0 || s.check.open() > 0 {
		s.fail("finish", "%d clients and %d calls have not finished %v after the last fault", s.busy, s.check.open(), s.now.Sub(limit)+3*time.Minute)
		return
	}
	s.runUntil(s.now.Add(s.plan.Clients.TTL + 4*s.plan.Clients.Idle + 3*time.Minute))
	if s.failed == nil {
		s.check.end()
	}
}

// after queues an event.
func (s *Simulation) after(d time.Duration, run func()) { s.queue.add(s.now.Add(d), run) }

func (s *Simulation) at(at Instant, run func()) { s.queue.add(max(at, s.now), run) }

// chance reports true at a rate from 0 to 1.
func (s *Simulation) chance(rate float64) bool { return rate > 0 && s.rng.Float64() < rate }

// upTo draws a duration below d.
func (s *Simulation) upTo(d time.Duration) time.Duration {
	if d <= 0 {
		return 0
	}
	return time.Duration(s.rng.Int64N(int64(d)))
}

// delay draws a delay around a typical one.
func (s *Simulation) delay(typical time.Duration) time.Duration {
	d := typical/2 + s.upTo(typical)
	if s.chance(s.plan.Net.Spikes) {
		d += s.upTo(20 * typical)
		s.met.add("trap: delay spike")
	}
	return d
}

// slowest is a bound on the time from a write to its effect everywhere while
// there is no fault.
func (s *Simulation) slowest() time.Duration {
	n := s.plan.Net
	d := 2*(n.Uplink+n.Ack+n.Watch) + n.Lag
	if n.Spikes > 0 {
		d += 20 * (n.Uplink + n.Ack + n.Watch)
	}
	return d
}

// hash draws the next hash of a domain. It names something that is used once.
func (s *Simulation) hash() entry.Hash {
	s.hashes++
	return numbered(s.plan.Seed, s.hashes)
}

// numbered is a hash that a reader of a trace can tell from others. SHA-256 would
// cost more than the rest of a call.
func numbered(seed, n uint64) (h entry.Hash) {
	n = n*0x9e3779b97f4a7c15 ^ seed
	for i := range 8 {
		h[i] = byte(n >> (8 * i))
		h[15-i] = byte((n * 0xbf58476d1ce4e5b9) >> (8 * i))
	}
	return h
}

// calm knows whether progress can be demanded.
type calm struct {
	active int           // faults
	since  Instant       // since when none is
	settle time.Duration // until its consequences are over
	lone   int           // faults of one peer alone, by which it dies or stands still
	others Instant       // since when there is none but those
}

func (c *calm) begin() { c.active++ }

func (c *calm) end(now Instant) {
	c.active--
	c.since, c.others = now, now
}

// beginLone and endLone are for a fault of one peer alone.
func (c *calm) beginLone() {
	c.active++
	c.lone++
}

func (c *calm) endLone(now Instant) {
	c.active--
	c.lone--
	c.since = now
}

// pulse is a fault of a moment.
func (c *calm) pulse(now Instant) { c.since, c.others = max(c.since, now), max(c.others, now) }

// by reports whether all faults were over, with their consequences, at a time.
func (c *calm) by(at Instant) bool { return c.active == 0 && c.since.Add(c.settle) <= at }

// othersBy is the same, whichever peers died or stood still.
func (c *calm) othersBy(at Instant) bool { return c.active == c.lone && c.others.Add(c.settle) <= at }
