package sim

import (
	"fmt"
	"time"

	"github.com/kvslots/kvslots/kvslots/internal/entry"
	"github.com/kvslots/kvslots/kvslots/internal/peer"
)

// session is what a client was told of its session, and when.
type session struct {
	hash   entry.Hash
	tau    time.Duration // its idle timeout; it lives for twice as long
	sure   Instant       // it lives until then, beyond doubt
	ended  Instant       // a call that ends it began; never
	over   Instant       // a client was told that it has ended; never
	ends   int           // calls that end it
	lost   bool          // the server ended it, by a clock that was stepped too far: nothing is certain
	places map[entry.Hash]*enqueuing
}

// sessionMargin is what the clocks of peers and stream may be apart.
const sessionMargin = 100 * time.Millisecond

func (k *checker) session(hash entry.Hash) *session {
	s := k.sessions[hash]
	if s == nil {
		s = &session{hash: hash, ended: never, over: never, places: map[entry.Hash]*enqueuing{}}
		k.sessions[hash] = s
	}
	return s
}

func (k *checker) beginSession(c *call) {
	s := c.facts.session
	if s == nil {
		return
	}
	c.facts.idle = s.sure < k.s.now
	if c.facts.gone = c.facts.gone || s.over < k.s.now; c.facts.gone {
		return
	}
	if _, ends := c.request.(peer.EndSession); ends {
		s.ended = min(s.ended, k.s.now)
		c.facts.sure = k.s.now < s.sure
		c.facts.until = s.sure
		s.sure = min(s.sure, k.s.now)
		s.ends++
	}
}

// answeredSession holds answers against how long a session lives: an answer
// promises its idle timeout.
func (k *checker) answeredSession(c *call) {
	if r, ok := c.request.(peer.CreateSession); ok {
		if c.answer.Err == nil {
			s := k.session(r.Session)
			if s.tau = r.Idle / 2; !k.shaken(c) {
				s.answered(c)
			}
		}
		return
	}
	s := c.facts.session
	if s == nil || c.unknown() {
		return
	}
	_, ends := c.request.(peer.EndSession)
	_, there := k.s.server.truth.sessions[s.hash]
	gone := isAny(c.answer.Err, peer.ErrSessionGone)
	switch {
	case k.shaken(c):
	case gone && ends && !s.lost && c.facts.sure && s.ends == 1 && c.end < c.facts.until:
		k.wrong(c, "the session was alive, and no other call ends it")
	case gone && c.end < s.sure:
		k.wrong(c, fmt.Sprintf("the session certainly lives for %v more", s.sure.Sub(c.end)))
	case gone:
		s.over = min(s.over, c.end)
	case s.over < c.start && c.answer.Err == nil:
		k.wrong(c, "the session had ended before")
	case ends && c.answer.Err == nil:
		s.over = min(s.over, c.end)
		if there {
			k.wrong(c, "the session is still in the stream")
		}
	case !there && hasEffect(c.request): // it is told what it did, although its session has ended
	default:
		s.answered(c)
	}
}

// hasEffect reports whether a request is answered with what it did even if its
// session ends before that can be told. Such an answer promises nothing.
func hasEffect(r peer.Request) bool {
	switch r.(type) {
	case peer.Return, peer.Renew:
		return true
	}
	return false
}

// answered notes that a request of the session was answered now.
func (s *session) answered(c *call) {
	// A peer whose machine was suspended knows the age of older entries no more.
	if s.ended == never && !s.lost && (c.node.slept == 0 || c.start >= c.node.slept.Add(2*s.tau)) {
		s.sure = max(s.sure, c.end.Add(s.tau-sessionMargin))
	}
}

// sessionEnded is called when a session's key was freed.
func (k *checker) sessionEnded(e *entry.Entry) {
	hash := e.Key.Session
	s := k.sessions[hash]
	if s != nil && (k.expiredEarly(e) || k.s.server.misled(k.s.now.Add(-4*s.tau))) {
		s.sure, s.lost = 0, true
	}
	if s != nil && k.s.now < s.sure {
		k.s.fail("session ended early", "session %s, idle timeout %v, certainly lives for %v more", short(hash), s.tau, s.sure.Sub(k.s.now))
	}
	if s != nil {
		k.checkKept(s, e)
	}
}

// enqueuing is what a session has in the line of a lock or a semaphore.
type enqueuing struct {
	state placeState
	lease entry.Hash
	lock  bool    // of a lock, and not of a semaphore
	since Instant // the start of the enqueue
	ttl   time.Duration
}

type placeState int

// What a session has in a line.
const (
	placeNone  placeState = iota // it has not enqueued, or was told the outcome
	placeTaken                   // it was told that it stands in line, and no more
	placeMaybe                   // it may have a place, or not
)

func (s *session) place(pool entry.Hash) *enqueuing {
	p := s.places[pool]
	if p == nil {
		p = &enqueuing{}
		s.places[pool] = p
	}
	return p
}

func (k *checker) beginPlace(c *call) {
	switch c.request.(type) {
	case peer.Enqueue, peer.Await:
		p := c.facts.session.place(c.facts.pool.id)
		c.facts.place = *p
		p.state = placeMaybe
	}
}

// answeredPlace holds answers about a session's place in a line against what the
// session was told before.
func (k *checker) answeredPlace(c *call) {
	switch c.request.(type) {
	case peer.Enqueue:
		k.enqueued(c)
	case peer.Await:
		k.awaited(c)
	}
}

func (k *checker) enqueued(c *call) {
	before := c.facts.place
	p := c.facts.session.place(c.facts.pool.id)
	switch {
	case c.unknown() || k.shaken(c):
	case c.answer.Err == nil && before.state == placeTaken && c.end < before.since.Add(before.ttl):
		k.wrong(c, "the session has enqueued before")
	case c.answer.Err == nil && c.answer.Queued:
		k.checkQueued(c)
		r := c.request.(peer.Enqueue)
		*p = enqueuing{state: placeTaken, lease: r.Lease, lock: r.Lock, since: c.start, ttl: r.TTL}
	case c.answer.Err == nil && before.state == placeNone:
		*p = enqueuing{state: placeMaybe, lock: c.request.(peer.Enqueue).Lock}
	case c.answer.Err == nil: // whether it may enqueue again before it waits is not laid down
		p.state = placeMaybe
	case isAny(c.answer.Err, peer.ErrAlreadyEnqueued):
		if before.state == placeNone {
			k.wrong(c, "the session has not enqueued")
		}
		p.state = before.state
	default:
		p.state = before.state
	}
}

func (k *checker) awaited(c *call) {
	before := c.facts.place
	p := c.facts.session.place(c.facts.pool.id)
	switch {
	case c.unknown() || k.shaken(c):
		return
	case c.answer.Err == nil && before.state == placeNone:
		k.wrong(c, "the session has not enqueued")
	case c.answer.Err == nil && before.state == placeTaken && leaseOf(c.facts.session.hash, c.answer.Grant.Nonce) != before.lease:
		k.wrong(c, "the session has enqueued for another lease")
	case isAny(c.answer.Err, peer.ErrNotEnqueued) && before.state != placeNone && (before.state == placeMaybe || before.lock != c.request.(peer.Await).Lock):
		*p = before // it may have asked for the other kind
		return
	case isAny(c.answer.Err, peer.ErrNotEnqueued) && before.state == placeTaken:
		k.wrong(c, "the session was told that it stands in line")
	case isAny(c.answer.Err, peer.ErrLeaseExpired):
		if before.state == placeNone {
			k.wrong(c, "the session has not enqueued")
		} else if before.state == placeTaken && c.end < before.since.Add(before.ttl) && !k.s.server.misled(before.since) {
			k.wrong(c, "no lease of it can have expired yet")
		}
	case isAny(c.answer.Err, peer.ErrSessionGone):
		return
	}
	p.state = placeNone
}

// waiting reports whether the caller of a lease waits for it still, at a peer
// that runs.
func (k *checker) waiting(p *poolTruth, lease entry.Hash) bool {
	for _, c := range p.calls {
		if c.target.lease == lease {
			return c.gaveUp == 0 && c.node.usable() && c.node.pauses == 0 && k.s.now < c.start.Add(c.wait()-time.Second)
		}
	}
	return false
}
