package sim

import (
	"cmp"
	"errors"
	"maps"
	"slices"
	"time"

	"github.com/kvslots/kvslots/kvslots/internal/entry"
	"github.com/kvslots/kvslots/kvslots/internal/peer"
)

// errCrashed is what a client sees of a peer that dies.
var errCrashed = errors.New("the connection broke")

// errHungUp is why a client gives up.
var errHungUp = errors.New("the client hung up")

// call is a request of a client with its answer.
type call struct {
	id      uint64
	client  string
	request peer.Request
	target  target
	node    *node
	number  uint64 // the peer's
	begun   bool   // the peer has it
	start   Instant
	local   Instant // when the peer took it, by the peer's clock
	end     Instant // 0: not answered yet
	gaveUp  Instant // 0: not
	aware   bool    // its peer must have noticed what the stream has lost
	answer  peer.Answer
	window  window
	facts   facts
	then    func(*call)
}

// facts are what the checker knew when a call began.
type facts struct {
	lease   *lease
	session *session
	pool    *pool
	sure    bool      // what it names was certainly there
	gone    bool      // what it names was certainly over
	place   enqueuing // Enqueue, Await: what the session had in the line
	leases  []*lease  // the leases of its pool that were certain
	ends    *ending   // what it may end
	until   Instant   // Renew: what was promised before
	idle    bool      // its session may have ended before the call began
}

// ask hands a request to a node. then is called when it has been answered, from
// an event of its own.
func (s *Simulation) ask(client string, n *node, r peer.Request, then func(*call)) *call {
	c := &call{id: s.check.calls + 1, client: client, request: r, node: n, start: s.now, local: n.clock(), then: then, aware: s.check.aware(n)}
	n.asked[c.id] = c
	s.check.begin(c)
	if s.trace != nil {
		s.note(client, "asks %s, call %d: %s", n.name(), c.id, describeRequest(r))
	}
	n.input(func(p *peer.Peer, now Instant) {
		c.number, c.begun, c.local = p.Do(r, now), true, now
		n.calls[c.number] = c
	})
	return c
}

// giveUp tells the peer that the caller is gone.
func (c *call) giveUp(why error) {
	n, s := c.node, c.node.s
	if c.end != 0 || n.peer == nil || c.gaveUp != 0 {
		return
	}
	c.gaveUp = s.now
	s.met.add("gave up")
	if s.trace != nil {
		s.note(c.client, "gives up call %d: %v", c.id, why)
	}
	life := n.life
	n.input(func(p *peer.Peer, now Instant) {
		if c.end == 0 && n.life == life {
			p.GiveUp(c.number, why, now)
		}
	})
}

// finish is when the client has its answer.
func (c *call) finish(a peer.Answer) {
	s := c.node.s
	c.answer, c.end = a, s.now
	delete(c.node.asked, c.id)
	if s.trace != nil {
		s.note(c.client, "is answered call %d: %s", c.id, describeAnswer(&a))
	}
	s.met.add("answer: " + answerName(c))
	s.check.answered(c)
	if c.then != nil {
		s.after(s.upTo(time.Millisecond), func() { c.then(c) })
	}
}

// unknown reports whether the call may have had an effect or not.
func (c *call) unknown() bool {
	return isAny(c.answer.Err, peer.ErrUnavailable, peer.ErrClosed, errCrashed, errHungUp, peer.ErrPlaceKept)
}

func isAny(err error, of ...error) bool {
	return err != nil && slices.ContainsFunc(of, func(e error) bool { return errors.Is(err, e) })
}

// wait is how long the call may wait for its turn.
func (c *call) wait() time.Duration {
	switch r := c.request.(type) {
	case peer.Borrow:
		return r.Wait
	case peer.Acquire:
		return r.Wait
	case peer.Await:
		return r.Wait
	}
	return 0
}

// target is what a request is about.
type target struct {
	pool, lease, session entry.Hash
	terms                entry.Terms
	named                bool // a lock or semaphore, with terms
	takes                bool // it may take a slot
	ttl                  time.Duration
}

func targetOf(r peer.Request) target {
	switch r := r.(type) {
	case peer.Borrow:
		return target{pool: r.Pool, lease: r.Lease, takes: true, ttl: r.TTL}
	case peer.Acquire:
		return target{pool: r.Pool, lease: r.Lease, session: r.Session, terms: terms(r.Resource), named: true, takes: true, ttl: r.TTL}
	case peer.Enqueue:
		return target{pool: r.Pool, lease: r.Lease, session: r.Session, terms: terms(r.Resource), named: true, takes: true, ttl: r.TTL}
	case peer.Await:
		return target{pool: r.Pool, session: r.Session, takes: true}
	case peer.Return:
		return target{pool: r.Pool, lease: r.Lease, session: r.Session}
	case peer.Renew:
		return target{pool: r.Pool, lease: r.Lease, session: r.Session, ttl: r.TTL}
	case peer.Follow:
		return target{pool: r.Pool, lease: r.Lease}
	case peer.ReleaseOwned:
		return target{pool: r.Pool}
	case peer.InspectOwned:
		return target{pool: r.Pool}
	case peer.Register:
		return target{pool: r.Pool}
	case peer.Inspect:
		return target{pool: r.Pool}
	case peer.Delete:
		return target{pool: r.Pool}
	case peer.Ping:
		return target{session: r.Session}
	case peer.EndSession:
		return target{session: r.Session}
	}
	return target{}
}

func terms(r peer.Resource) entry.Terms {
	return entry.Terms{Name: r.Name, Dialect: r.Dialect, Lock: r.Lock, Limit: r.Limit}
}

// inOrder are the values of a map in the order of their keys: nothing may depend
// on a map's own order.
func inOrder[K cmp.Ordered, V any](m map[K]V) []V {
	values := make([]V, 0, len(m))
	for _, k := range slices.Sorted(maps.Keys(m)) {
		values = append(values, m[k])
	}
	return values
}
