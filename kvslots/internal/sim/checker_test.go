package sim

import (
	"math/rand/v2"
	"strings"
	"testing"
	"time"

	"github.com/kvslots/kvslots/kvslots/internal/entry"
	"github.com/kvslots/kvslots/kvslots/internal/peer"
	"github.com/kvslots/kvslots/kvslots/internal/rules"
	"github.com/kvslots/kvslots/kvslots/reads"
)

// checkerTest is a simulation without peers. The test writes to the stream and answers
// the calls itself, correctly or not.
type checkerTest struct {
	*Simulation
	t      *testing.T
	pool   entry.Hash
	last   map[entry.Key]uint64
	fenced uint64 // the highest fence so far
}

func newCheckerTest(t *testing.T) *checkerTest {
	s := newSimulation(Plan{Nodes: 1, Replicas: 1, Length: time.Minute}, Options{})
	return &checkerTest{Simulation: s, t: t, pool: poolID(0), last: map[entry.Key]uint64{}}
}

// write writes a value, or a marker if value is nil.
func (x *checkerTest) write(key entry.Key, value any) uint64 {
	x.t.Helper()
	m := entry.NewPurge(key, x.last[key], 2*time.Minute)
	if value != nil {
		m = entry.NewMessage(key, value, x.last[key], 0)
	}
	a, _ := x.server.publish(&peer.Write{Message: m})
	if a.Outcome != peer.Written {
		x.t.Fatalf("write of %v: %+v", key, a)
	}
	x.last[key] = a.Revision
	return a.Revision
}

func (x *checkerTest) config(count int) {
	x.write(entry.Key{Kind: entry.Config, Pool: x.pool}, entry.ConfigValue{Count: count, Generation: 7})
}

func (x *checkerTest) named(limit int) {
	x.write(entry.Key{Kind: entry.Config, Pool: x.pool}, entry.ConfigValue{Count: limit, Generation: 7, Terms: entry.Terms{Name: "x", Limit: limit}})
}

func (x *checkerTest) slotKey(position int) entry.Key {
	return entry.Key{Kind: entry.Slot, Pool: x.pool, N: position}
}

// claim writes the first entry of a lease.
func (x *checkerTest) claim(position int, lease entry.Hash) (fence uint64) {
	return x.claimWith(position, entry.SlotValue{Lease: lease})
}

func (x *checkerTest) claimWith(position int, v entry.SlotValue) (fence uint64) {
	x.t.Helper()
	v.Generation, v.TTL, v.Claimer, v.After = 7, entry.Span(time.Minute), hashOf(9), x.fenced
	x.write(x.slotKey(position), v)
	x.fenced = x.server.truth.pool(x.pool).slots[position].Fence()
	return x.fenced
}

// renew writes the slot of a lease again.
func (x *checkerTest) renew(lease entry.Hash, position int, fence uint64) {
	x.write(x.slotKey(position), entry.SlotValue{Lease: lease, Generation: 7, TTL: entry.Span(time.Minute), Claimer: hashOf(9), Fence: fence})
}

func (x *checkerTest) ticketKey(n int) entry.Key {
	return entry.Key{Kind: entry.Ticket, Pool: x.pool, Session: hashOf(9), N: n}
}

func (x *checkerTest) ticket(n int, lease entry.Hash) uint64 {
	return x.write(x.ticketKey(n), entry.TicketValue{Lease: lease, Generation: 7, Wait: entry.Span(time.Minute)})
}

// presence writes the presence of the author of the tickets.
func (x *checkerTest) presence() {
	x.write(rules.SessionKey(hashOf(9)), entry.SessionValue{Kind: entry.SessionPeer, Idle: entry.Span(9 * time.Second)})
}

func (x *checkerTest) ask(r peer.Request) *call {
	return x.Simulation.ask("client", x.nodes[0], r, nil)
}

// readOf returns the answer with a state and no lists.
func readOf(s reads.State) peer.Answer {
	return peer.Answer{Detail: &reads.Detail{Pool: reads.Pool{State: s}}}
}

func (x *checkerTest) sleep(d time.Duration) { x.runUntil(x.now.Add(d)) }

func hashOf(n uint64) entry.Hash { return numberedHash(1, n) }

func (x *checkerTest) grant(position int, fence uint64) peer.Answer {
	return peer.Answer{Grant: peer.Grant{Position: position, Fence: fence, TTL: 20 * time.Second, At: x.now}}
}

// borrow claims a slot and answers a borrow with it.
func (x *checkerTest) borrow(lease entry.Hash, position int) uint64 {
	c := x.ask(peer.Borrow{Pool: x.pool, Lease: lease, TTL: 20 * time.Second})
	fence := x.claim(position, lease)
	c.finish(x.grant(position, fence))
	return fence
}

// served claims the highest position for a ticket, and answers a borrow with it.
func (x *checkerTest) served(lease entry.Hash, ticket uint64) {
	c := x.ask(peer.Borrow{Pool: x.pool, Lease: lease, TTL: 20 * time.Second})
	position := x.server.truth.pool(x.pool).count() - 1
	c.finish(x.grant(position, x.claimWith(position, entry.SlotValue{Lease: lease, Ticket: ticket})))
}

func (x *checkerTest) held(lease entry.Hash) peer.Held { return peer.Held{Pool: x.pool, Lease: lease} }

func (x *checkerTest) answer(r peer.Request, a peer.Answer) { x.ask(r).finish(a) }

// session creates a session with an idle timeout of 5 s.
func (x *checkerTest) session() entry.Hash {
	id := hashOf(50)
	c := x.ask(peer.CreateSession{Session: id, Idle: 10 * time.Second})
	x.write(entry.Key{Kind: entry.Session, Session: id}, entry.SessionValue{Kind: entry.SessionClient, Idle: entry.Span(10 * time.Second)})
	c.finish(peer.Answer{})
	return id
}

var resource = peer.Resource{Name: "x", Limit: 2}

func (x *checkerTest) resource() peer.Resource {
	r := resource
	r.Pool = x.pool
	return r
}

// expectFailure fails the test unless the run failed with that text, or passed if what
// is "".
func (x *checkerTest) expectFailure(what string) {
	x.t.Helper()
	switch {
	case what == "" && x.failed != nil:
		x.t.Errorf("%s\n%s", x.failed, x.trace)
	case what != "" && (x.failed == nil || !strings.Contains(x.failed.String(), what)):
		x.t.Errorf("%v; want %q\n%s", x.failed, what, x.trace)
	}
}

func (x *checkerTest) giveBack(lease entry.Hash, position int) {
	r := x.ask(peer.Return{Held: x.held(lease)})
	x.write(x.slotKey(position), nil)
	r.finish(peer.Answer{})
	x.sleep(time.Millisecond)
}

func (x *checkerTest) grantedTooLate(lease entry.Hash) {
	x.config(1)
	c := x.ask(peer.Borrow{Pool: x.pool, Lease: lease, TTL: 20 * time.Second})
	fence := x.claim(0, lease)
	x.write(x.slotKey(0), nil)
	c.finish(x.grant(0, fence))
}

func (x *checkerTest) endSession(id entry.Hash) {
	c := x.ask(peer.EndSession{Session: id})
	x.write(entry.Key{Kind: entry.Session, Session: id}, nil)
	c.finish(peer.Answer{})
	x.sleep(time.Millisecond)
}

func (x *checkerTest) enqueue(id entry.Hash, a peer.Answer) {
	x.answer(peer.Enqueue{Resource: x.resource(), Session: id, Lease: hashOf(77), TTL: time.Minute}, a)
}

func (x *checkerTest) await(id entry.Hash, err error) {
	x.answer(peer.Await{Pool: x.pool, Session: id}, peer.Answer{Err: err})
}

func (x *checkerTest) owned(lease entry.Hash) {
	x.named(1)
	r := x.resource()
	r.Limit = 1
	c := x.ask(peer.Acquire{Resource: r, Lease: lease, Owner: "a", TTL: 20 * time.Second})
	fence := x.claimWith(0, entry.SlotValue{Lease: lease, Owner: "a"})
	c.finish(x.grant(0, fence))
}

// overtake grants a borrower a slot for which another one has waited in line.
func (x *checkerTest) overtake(a, b, c entry.Hash) {
	x.sleep(20 * time.Second)
	x.config(1)
	x.presence()
	x.borrow(a, 0)
	x.nodes[0].peer = peer.New(peer.Config{Random: rand.NewPCG(1, 2)}, x.now) // a running peer, which waits for b
	x.check.begin(&call{id: 70, startByPeer: x.now, request: peer.Borrow{Pool: x.pool, Lease: b, Wait: time.Minute}, node: x.nodes[0], start: x.now, client: "b"})
	x.ticket(0, b)
	x.sleep(time.Second)
	r := &call{id: 71, startByPeer: x.now, request: peer.Return{Held: x.held(a)}, node: x.nodes[0], start: x.now, client: "a"}
	x.check.begin(r)
	x.write(x.slotKey(0), nil)
	r.finish(peer.Answer{})
	r = &call{id: 72, startByPeer: x.now, request: peer.Borrow{Pool: x.pool, Lease: c, TTL: 20 * time.Second}, node: x.nodes[0], start: x.now, client: "c"}
	x.check.begin(r)
	r.finish(x.grant(0, x.claim(0, c)))
}
