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

var errCrashed = errors.New("the connection broke")

// errHungUp is the cause with which a client cancels a call.
var errHungUp = errors.New("the client hung up")

type call struct {
	id              uint64
	client          string
	request         peer.Request
	target          target
	node            *node
	peerNumber      uint64 // the number that the peer gave it
	delivered       bool   // the peer has received it
	start           Instant
	startByPeer     Instant // when the peer received it, by the peer's clock
	decided         Instant // when the peer answered it; the answer may wait for a flush then. 0 until then
	end             Instant // 0 until it is answered
	gaveUp          Instant // when the client canceled it; 0 if it has not
	flushFailed     bool    // the answer is that of a failed flush
	peerNoticedLoss bool    // the peer had noticed the last loss of data before the call
	answer          peer.Answer
	window          window
	facts           facts
	then            func(*call)
}

type facts struct {
	lease         *lease
	session       *session
	pool          *pool
	certain       bool      // the lease or session certainly existed
	over          bool      // the lease or session had certainly ended
	poolShared    bool      // Register, Delete: another one may have taken effect meanwhile
	place         linePlace // Enqueue, Await: the session's place in the line
	certainLeases []*lease  // the pool's certainly live leases
	ending        *ending   // Delete, ReleaseOwned: the leases that the call may end
	promisedUntil Instant   // Renew, EndSession: until when the lease or session was promised
	survey        *survey   // see reads
	marked        entry.Key // Await: the slot that was marked as seen during the call
	mayBeIdle     bool      // the session may have ended before the call began
	key           *requestKey
	generation    uint64 // of the node, when the call was answered
}

// ask sends a request to a node. When the call is answered, ask calls then from an
// event of its own.
func (s *Simulation) ask(client string, n *node, r peer.Request, then func(*call)) *call {
	c := &call{id: s.check.calls + 1, client: client, request: r, node: n, start: s.now, startByPeer: n.clock(), then: then, peerNoticedLoss: s.check.hasNoticedLoss(n)}
	n.requests[c.id] = c
	s.check.begin(c)
	if s.trace != nil {
		s.traceAbout(client, "asks %s, call %d: %s", n.name(), c.id, describeRequest(r))
	}
	n.input(func(p *peer.Peer, now Instant) {
		c.peerNumber, c.delivered, c.startByPeer = p.Do(r, now), true, now
		n.calls[c.peerNumber] = c
	})
	return c
}

func (c *call) giveUp(why error) {
	n, s := c.node, c.node.s
	if c.end != 0 || n.peer == nil || c.gaveUp != 0 {
		return
	}
	c.gaveUp = s.now
	s.met.add("gave up")
	if s.trace != nil {
		s.traceAbout(c.client, "gives up call %d, %s: %v", c.id, describeTarget(&c.target), why)
	}
	n.input(func(p *peer.Peer, now Instant) {
		if n.calls[c.peerNumber] == c {
			p.GiveUp(c.peerNumber, why, now)
		}
	})
}

func (c *call) finish(a peer.Answer) {
	s := c.node.s
	c.answer, c.end = a, s.now
	if c.decided == 0 {
		c.decided = s.now
	}
	delete(c.node.requests, c.id)
	if s.trace != nil {
		s.traceAbout(c.client, "has the answer to call %d, %s: %s", c.id, describeTarget(&c.target), describeAnswer(&a))
	}
	s.met.add("answer: " + answerName(c))
	s.check.answered(c)
	if c.then != nil {
		s.after(s.upTo(time.Millisecond), func() { c.then(c) })
	}
}

// unknown reports whether the client cannot know if the request took effect.
func (c *call) unknown() bool {
	return isAny(c.answer.Err, peer.ErrUnavailable, peer.ErrClosed, errCrashed, errHungUp, peer.ErrPlaceKept)
}

func isAny(err error, of ...error) bool {
	return err != nil && slices.ContainsFunc(of, func(e error) bool { return errors.Is(err, e) })
}

type target struct {
	pool, lease, session entry.Hash
	terms                entry.Terms
	named                bool // a lock or semaphore, with terms
	takes                bool // the request may take a slot
	ttl, wait            time.Duration
	request              entry.Hash // the request key
}

func targetOf(r peer.Request) target {
	switch r := r.(type) {
	case peer.Borrow:
		return target{pool: r.Pool, lease: r.Lease, takes: true, ttl: r.TTL, wait: r.Wait, request: r.Request}
	case peer.Acquire:
		return target{pool: r.Pool, lease: r.Lease, session: r.Session, terms: terms(r.Resource), named: true, takes: true, ttl: r.TTL, wait: r.Wait, request: r.Request}
	case peer.Enqueue:
		return target{pool: r.Pool, lease: r.Lease, session: r.Session, terms: terms(r.Resource), named: true, takes: true, ttl: r.TTL, request: r.Request}
	case peer.Await:
		return target{pool: r.Pool, session: r.Session, takes: true, wait: r.Wait}
	case peer.Return:
		return target{pool: r.Pool, lease: r.Lease, session: r.Session}
	case peer.Abandon:
		return target{pool: r.Pool, lease: r.Lease}
	case peer.Renew:
		return target{pool: r.Pool, lease: r.Lease, session: r.Session, ttl: r.TTL}
	case peer.ReleaseOwned:
		return target{pool: r.Pool}
	case peer.Register:
		return target{pool: r.Pool}
	case peer.Delete:
		return target{pool: r.Pool}
	case peer.ReadPool:
		return target{pool: r.Pool}
	case peer.ReadPlace:
		return target{pool: r.Pool}
	case peer.ReadLease:
		return target{pool: r.Pool, lease: r.Lease}
	case peer.Evict:
		return target{pool: r.Pool}
	case peer.SetOut:
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

// valuesInOrder returns a map's values in the order of their keys, so that a run does
// not depend on the random order of map iteration.
func valuesInOrder[K cmp.Ordered, V any](m map[K]V) []V {
	values := make([]V, 0, len(m))
	for _, k := range slices.Sorted(maps.Keys(m)) {
		values = append(values, m[k])
	}
	return values
}
