package sim

import (
	"testing"
	"time"

	"github.com/kvslots/kvslots/kvslots/internal/entry"
	"github.com/kvslots/kvslots/kvslots/internal/peer"
)

// script is a run that a test controls: it sends requests, causes faults, and lets
// virtual time pass. All checks of a random run apply.
type script struct {
	*Simulation
	t *testing.T
}

// newScript starts peers on an empty stream, and waits until all are ready.
func newScript(t *testing.T, nodes int, change ...func(*Plan)) *script {
	t.Helper()
	p := Plan{
		Seed: 1, Nodes: nodes, Replicas: 1, Length: time.Hour, Clock: 10 * time.Minute,
		Net:     NetPlan{Uplink: 200 * time.Microsecond, Ack: 200 * time.Microsecond, Feed: 300 * time.Microsecond},
		Clients: ClientPlan{TTL: 5 * time.Minute, Wait: 10 * time.Second, Idle: time.Minute},
	}
	for _, c := range change {
		c(&p)
	}
	s := &script{newSimulation(p, Options{Trace: true, KeepLines: 100}), t}
	for _, n := range s.nodes {
		n.feed.lags = false
		n.start()
	}
	s.after(checkEvery, s.check.checkProgress)
	s.until("all peers are ready", 10*time.Second, func() bool {
		for i := range s.nodes {
			if s.status(i) != nil {
				return false
			}
		}
		return true
	})
	return s
}

func replicated(p *Plan) { p.Replicas = 3 }

func seeded(seed int) func(*Plan) { return func(p *Plan) { p.Seed = uint64(seed) } }

// loaded turns off the trace, for a run with so many events that recording them would
// take too long.
func (s *script) loaded() { s.trace = nil }

// events returns the last lines of the trace.
func (s *script) events() string {
	if s.trace == nil {
		return ""
	}
	return s.trace.String()
}

// verify ends the test if a check has failed.
func (s *script) verify() {
	s.t.Helper()
	if s.failed != nil {
		s.t.Fatalf("%s\n%s", s.failed, s.events())
	}
}

// pass lets time pass.
func (s *script) pass(d time.Duration) {
	s.t.Helper()
	s.runUntil(s.now.Add(d))
	s.verify()
}

// until lets time pass until a condition is true, and returns how much time has passed.
func (s *script) until(what string, limit time.Duration, ok func() bool) time.Duration {
	s.t.Helper()
	began, end := s.now, s.now.Add(limit)
	for !ok() {
		s.verify()
		if s.queue.empty() || s.queue.next() > end {
			s.t.Fatalf("not within %v: %s\n%s", limit, what, s.events())
		}
		e := s.queue.take()
		s.now = max(s.now, e.at)
		e.run()
	}
	s.verify()
	return s.now.Sub(began)
}

// begin sends a request to a peer.
func (s *script) begin(node int, r peer.Request) *call { return s.ask("test", s.nodes[node], r, nil) }

// answer waits for a call's answer.
func (s *script) answer(c *call) peer.Answer {
	s.t.Helper()
	s.until("an answer", c.target.wait+11*time.Second, func() bool { return c.end != 0 })
	return c.answer
}

// do sends a request to a peer and waits for the answer.
func (s *script) do(node int, r peer.Request) peer.Answer {
	s.t.Helper()
	return s.answer(s.begin(node, r))
}

// must is do for a request that must succeed.
func (s *script) must(node int, r peer.Request) peer.Answer {
	s.t.Helper()
	a := s.do(node, r)
	if a.Err != nil {
		s.t.Fatalf("%T: %v\n%s", r, a.Err, s.events())
	}
	return a
}

// want is do for a request that must fail with err.
func (s *script) want(node int, r peer.Request, err error) {
	s.t.Helper()
	if a := s.do(node, r); !isAny(a.Err, err) {
		s.t.Fatalf("%T: %s, not %v\n%s", r, describeAnswer(&a), err, s.events())
	}
}

// fault begins a fault, during which no progress is demanded. The caller ends it with
// the function that fault returns.
func (s *script) fault() (over func()) {
	s.faultState.begin()
	return func() { s.faultState.end(s.now) }
}

func (s *script) status(node int) error {
	n := s.nodes[node]
	return n.peer.Status(n.clock())
}

func (s *script) counters(node int) peer.Counters { return s.nodes[node].peer.Counters() }

// newPool registers a pool.
func (s *script) newPool(count int) entry.Hash {
	s.t.Helper()
	id := s.newHash()
	s.must(0, peer.Register{Pool: id, Count: count})
	return id
}

// borrow returns a request for a slot.
func (s *script) borrow(pool entry.Hash, ttl, wait time.Duration) peer.Borrow {
	r := s.newBorrow(pool)
	r.TTL, r.Wait = ttl, wait
	return r
}

// returnOf returns the request that returns the slot that b was granted.
func returnOf(b peer.Borrow, g peer.Grant) peer.Return {
	return peer.Return{Held: peer.Held{Pool: b.Pool, Lease: leaseOfClaim(b.Lease, g.Claim)}}
}

// newSession creates a session with the given idle timeout, as clients see it.
func (s *script) newSession(node int, timeout time.Duration) entry.Hash {
	s.t.Helper()
	id := s.newHash()
	s.must(node, peer.CreateSession{Session: id, Idle: 2 * timeout})
	return id
}

func named(name string, limit int, lock bool) peer.Resource {
	return peer.Resource{Pool: nameID("", name), Name: name, Limit: limit, Lock: lock}
}

func (s *script) acquire(on peer.Resource, session entry.Hash, ttl, wait time.Duration) peer.Acquire {
	nonce := s.newHash()
	return peer.Acquire{Resource: on, Session: session, Lease: leaseOf(session, nonce), Nonce: nonce, TTL: ttl, Wait: wait}
}

func (s *script) enqueue(on peer.Resource, session entry.Hash, ttl time.Duration) peer.Enqueue {
	nonce := s.newHash()
	return peer.Enqueue{Resource: on, Session: session, Lease: leaseOf(session, nonce), Nonce: nonce, TTL: ttl}
}

func await(on peer.Resource, session entry.Hash, wait time.Duration) peer.Await {
	return peer.Await{Pool: on.Pool, Session: session, Lock: on.Lock, Wait: wait}
}

// releaseOf returns the request that releases a grant.
func releaseOf(on peer.Resource, session entry.Hash, g peer.Grant) peer.Return {
	return peer.Return{Held: peer.Held{
		Pool: on.Pool, Lease: leaseOf(session, g.Nonce), Session: session, Named: true, Lock: on.Lock, Fence: g.Fence,
	}}
}
