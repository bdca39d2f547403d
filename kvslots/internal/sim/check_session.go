package sim

import (
	"fmt"
	"time"

	"github.com/kvslots/kvslots/kvslots/internal/entry"
	"github.com/kvslots/kvslots/kvslots/internal/peer"
)

// session is what clients have learnt of a session. endingSince and goneSince are never
// until something happens.
type session struct {
	hash        entry.Hash
	idleTimeout time.Duration // as clients see it; the entry lives twice as long
	createdAt   Instant       // when its creation was answered
	aliveUntil  Instant       // the session is certainly alive until then
	used        lastUse
	endingSince Instant // when the first call began that ends it
	goneSince   Instant // when a client learnt of its end
	endCalls    int     // number of calls that end it
	uncertain   bool    // the server may have expired it early; nothing is known for certain
	places      map[entry.Hash]*linePlace
	unsure      map[entry.Hash]Instant       // by pool: until when an Enqueue may take effect
	shortest    map[entry.Hash]time.Duration // by pool: the shortest ttl that an Enqueue has asked for
}

// lastUse is the last answer that used a session. The peer that gave it refreshes the session
// later, if it lives on.
type lastUse struct {
	at         Instant
	node       *node
	generation uint64 // of the node
}

// clockMargin bounds the difference between the clocks of peers and stream.
const clockMargin = 100 * time.Millisecond

func (k *checker) session(hash entry.Hash) *session {
	s := k.sessions[hash]
	if s == nil {
		s = &session{hash: hash, endingSince: never, goneSince: never, places: map[entry.Hash]*linePlace{}, unsure: map[entry.Hash]Instant{}, shortest: map[entry.Hash]time.Duration{}}
		k.sessions[hash] = s
	}
	return s
}

func (k *checker) beginSession(c *call) {
	s := c.facts.session
	if s == nil {
		return
	}
	c.facts.mayBeIdle = s.aliveUntil < k.s.now
	if c.facts.over = c.facts.over || s.goneSince < k.s.now; c.facts.over {
		return
	}
	if _, ends := c.request.(peer.EndSession); ends {
		s.endingSince = min(s.endingSince, k.s.now)
		c.facts.certain = k.s.now < s.aliveUntil
		c.facts.promisedUntil = s.aliveUntil
		s.aliveUntil = min(s.aliveUntil, k.s.now)
		s.endCalls++
	}
}

// answeredSession checks an answer against how long the session lives. An answer to a
// request of a session promises that it lives for another idle timeout.
func (k *checker) answeredSession(c *call) {
	if r, ok := c.request.(peer.CreateSession); ok {
		if c.answer.Err == nil {
			s := k.session(r.Session)
			s.createdAt = c.end
			if s.idleTimeout = r.Idle / 2; !k.mayReflectLoss(c) {
				s.keepAlive(c)
			}
		}
		return
	}
	s := c.facts.session
	if s == nil || c.unknown() {
		return
	}
	_, ends := c.request.(peer.EndSession)
	_, returns := c.request.(peer.Return)
	_, renews := c.request.(peer.Renew)
	_, there := k.s.server.truth.sessions[s.hash]
	gone := isAny(c.answer.Err, peer.ErrSessionGone)
	switch {
	case k.mayReflectLoss(c):
	case gone && ends && !s.uncertain && c.facts.certain && s.endCalls == 1 && c.end < c.facts.promisedUntil:
		k.wrong(c, "the session was alive, and no other call was ending it")
	case gone && c.end < s.aliveUntil:
		k.wrong(c, fmt.Sprintf("the session is certainly alive for %v more", s.aliveUntil.Sub(c.end)))
	case gone:
		s.goneSince = min(s.goneSince, c.end)
	case s.goneSince < c.start && c.answer.Err == nil:
		k.wrong(c, "the session had ended before")
	case ends && c.answer.Err == nil:
		s.goneSince = min(s.goneSince, c.end)
		if there {
			k.wrong(c, "the session is still in the stream")
		}
	case !there && (returns || renews): // reports what it did, although its session has ended, and promises nothing
	default:
		s.keepAlive(c)
	}
}

func (s *session) keepAlive(c *call) {
	// A peer whose machine was suspended does not know the age of older entries. The time
	// that an answer takes to its client does not count, whether for a flush or on its way.
	if s.endingSince == never && !s.uncertain && (c.node.suspendedUntil == 0 || c.start >= c.node.suspendedUntil.Add(2*s.idleTimeout)) {
		s.aliveUntil = max(s.aliveUntil, c.decided.Add(s.idleTimeout-clockMargin))
		s.used = lastUse{c.decided, c.node, c.node.generation}
	}
}

func (k *checker) sessionEnded(e *entry.Entry) {
	hash := e.Key.Session
	early := k.expiredEarly(e)
	if early {
		k.session(hash) // its creation may not be answered yet
	}
	s := k.sessions[hash]
	if s == nil {
		return
	}
	if s.createdAt > 0 {
		k.idleTimes += uint64(k.s.now.Sub(s.createdAt)/s.idleTimeout) + 1
	}
	if early || k.s.server.mayMisjudgeAge(k.s.now.Add(-4*s.idleTimeout)) {
		s.aliveUntil, s.uncertain = 0, true
	}
	if k.s.now < s.aliveUntil {
		k.s.fail("session ended early", "session %s, idle timeout %v, is certainly alive for %v more", short(hash), s.idleTimeout, s.aliveUntil.Sub(k.s.now))
	}
	k.checkRefreshed(s, e)
	k.checkUsed(s, e)
}

// checkUsed fails the run if a session ends before it has been idle for twice its idle
// timeout, less the eighth that a refresh may ignore, although the peer that it used last
// runs without a fault.
func (k *checker) checkUsed(s *session, e *entry.Entry) {
	u := s.used
	if s.endingSince < never || u.at == 0 || u.node.generation != u.generation || !u.node.serving() || !k.s.faultState.settledAt(u.at) || k.s.maxLatency() > s.idleTimeout/4 {
		return
	}
	if idle, least := k.s.now.Sub(u.at), 2*s.idleTimeout-s.idleTimeout/8-clockMargin; idle < least {
		k.s.fail("session ended early", "session %s, idle timeout %v, was used %v ago at %s, and has ended: %s",
			short(s.hash), s.idleTimeout, idle, u.node.name(), describeEntry(e))
	}
}

// linePlace is a session's place in the line of a lock or a semaphore, as far as its
// client knows.
type linePlace struct {
	state placeState
	lease entry.Hash
	lock  bool    // of a lock; otherwise of a semaphore
	since Instant // start of the enqueue
	ttl   time.Duration
}

type placeState int

const (
	placeNone    placeState = iota // not enqueued, or the wait was answered
	placeQueued                    // enqueue was answered "queued"
	placeUnknown                   // a call may have changed it
)

func (s *session) place(pool entry.Hash) *linePlace {
	p := s.places[pool]
	if p == nil {
		p = &linePlace{}
		s.places[pool] = p
	}
	return p
}

func (k *checker) beginLinePlace(c *call) {
	switch c.request.(type) {
	case peer.Enqueue, peer.Await:
		if asked := c.facts.session.shortest; c.target.ttl > 0 && (asked[c.target.pool] == 0 || c.target.ttl < asked[c.target.pool]) {
			asked[c.target.pool] = c.target.ttl
		}
		p := c.facts.session.place(c.facts.pool.id)
		if c.facts.place = *p; k.enqueues(c) || k.s.now < c.facts.session.unsure[c.facts.pool.id] {
			c.facts.place.state = placeUnknown
		}
		p.state = placeUnknown
	}
}

// enqueues reports whether another Enqueue of a call's session, for the same line, is under way:
// a client may repeat one without waiting for its answer.
func (k *checker) enqueues(c *call) bool {
	if k.s.plan.Clients.Keyed == 0 {
		return false
	}
	for _, o := range k.openCalls {
		if r, is := o.request.(peer.Enqueue); is && o != c && r.Pool == c.target.pool && r.Session == c.target.session {
			return true
		}
	}
	return false
}

func (k *checker) answeredLinePlace(c *call) {
	switch r := c.request.(type) {
	case peer.Enqueue:
		k.enqueued(c, r)
	case peer.Await:
		k.awaited(c, r)
	default:
		return
	}
	_, enqueues := c.request.(peer.Enqueue)
	if k.enqueues(c) || enqueues && c.unknown() { // its ticket may still be written, and stand until its peer purges it
		c.facts.session.place(c.facts.pool.id).state = placeUnknown
		c.facts.session.unsure[c.facts.pool.id] = k.s.now.Add(maxLateEffect)
	}
}

func (k *checker) enqueued(c *call, r peer.Enqueue) {
	before, p := c.facts.place, c.facts.session.place(c.facts.pool.id)
	switch {
	case c.unknown() || k.mayReflectLoss(c):
	case c.facts.key != nil && c.facts.key.calls > 1: // a repeat, or the call before it, is answered as the first one
		p.state = placeUnknown
	case c.answer.Err == nil && before.state == placeQueued && !k.mayHaveExpired(&before, c.end):
		k.wrong(c, "the session has enqueued before")
	case c.answer.Err == nil && c.answer.Queued:
		k.lines.checkQueued(c)
		*p = linePlace{state: placeQueued, lease: r.Lease, lock: r.Lock, since: c.start, ttl: r.TTL}
	case c.answer.Err == nil && before.state == placeNone:
		*p = linePlace{state: placeUnknown, lock: r.Lock}
	case c.answer.Err == nil: // unspecified whether it may enqueue again before it waits
		p.state = placeUnknown
	default:
		if isAny(c.answer.Err, peer.ErrAlreadyEnqueued) && before.state == placeNone {
			k.wrong(c, "the session has not enqueued")
		}
		p.state = before.state
	}
}

func (k *checker) awaited(c *call, r peer.Await) {
	before, p := c.facts.place, c.facts.session.place(c.facts.pool.id)
	switch {
	case c.unknown() || k.mayReflectLoss(c):
		return
	case c.answer.Err == nil && before.state == placeNone:
		k.wrong(c, "the session has not enqueued")
	case c.answer.Err == nil && before.state == placeQueued && leaseOf(c.facts.session.hash, c.answer.Grant.Nonce) != before.lease:
		k.wrong(c, "the session has enqueued for another lease")
	case isAny(c.answer.Err, peer.ErrNotEnqueued) && before.state != placeNone && (before.state == placeUnknown || before.lock != r.Lock):
		*p = before // it may have enqueued as the other kind
		return
	case isAny(c.answer.Err, peer.ErrNotEnqueued) && before.state == placeQueued:
		k.wrong(c, "an enqueue of the session was answered queued")
	case isAny(c.answer.Err, peer.ErrLeaseExpired):
		if before.state == placeNone {
			k.wrong(c, "the session has not enqueued")
		} else if before.state == placeQueued && !k.mayHaveExpired(&before, c.end) {
			k.wrong(c, "its lease cannot have expired yet")
		}
	case isAny(c.answer.Err, peer.ErrSessionGone):
		return
	}
	p.state = placeNone
}

// mayHaveExpired reports whether the lease of a place may have been claimed and have
// ended for its age by then. After that the session may enqueue again.
func (k *checker) mayHaveExpired(p *linePlace, at Instant) bool {
	return at >= p.since.Add(p.ttl) || k.s.server.mayMisjudgeAge(p.since)
}

func (k *checker) isWaiting(p *poolTruth, lease entry.Hash) bool {
	for _, c := range p.calls {
		if c.target.lease == lease {
			return c.gaveUp == 0 && c.decided == 0 && c.node.serving() && c.node.pauses == 0 && k.s.now < c.start.Add(c.target.wait-time.Second)
		}
	}
	return false
}
