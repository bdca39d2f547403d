package sim

import (
	"fmt"
	"time"

	"github.com/kvslots/kvslots/kvslots/internal/entry"
	"github.com/kvslots/kvslots/kvslots/internal/peer"
)

const (
	patience   = 5 * time.Second // a call is answered so long after its wait
	checkEvery = 250 * time.Millisecond
	never      = Instant(1 << 62)
)

// Failure is a check that did not hold.
type Failure struct {
	Check string
	At    time.Duration // since the start
	Text  string
}

func (f *Failure) String() string { return fmt.Sprintf("%s, after %v: %s", f.Check, f.At, f.Text) }

// fail ends the run with its first failure.
func (s *Simulation) fail(check, format string, args ...any) {
	if s.failed == nil {
		s.failed = &Failure{check, s.now.Sub(start), fmt.Sprintf(format, args...)}
		s.note("FAILURE", "%s", s.failed)
	}
}

// checker knows what clients asked and what they were told.
type checker struct {
	s        *Simulation
	calls    uint64 // asked so far
	opened   map[uint64]*call
	pools    map[entry.Hash]*pool
	sessions map[entry.Hash]*session
	totals   peer.Counters
	lostAt   Instant                // when the stream last lost something; 0: never
	waits    []*call                // that may wait for a slot
	losing   bool                   // the stream is about to lose something
	overdue  map[entry.Hash]Instant // when a ticket last ended, by its peer, that had stood for StallTime
	troubles []Instant              // when peers died, stood still and went on
	tended   Instant                // of those that died before, no ticket is left in a line
}

func newChecker(s *Simulation) *checker {
	return &checker{
		s: s, opened: map[uint64]*call{}, pools: map[entry.Hash]*pool{},
		sessions: map[entry.Hash]*session{}, overdue: map[entry.Hash]Instant{},
	}
}

// open is the number of calls under way, but for those that may last for ever.
func (k *checker) open() (n int) {
	for _, c := range k.opened {
		if _, follows := c.request.(peer.Follow); !follows {
			n++
		}
	}
	return n
}

// begin takes note of a call, and of what it may end.
func (k *checker) begin(c *call) {
	k.calls++
	k.opened[c.id] = c
	c.target = targetOf(c.request)
	t := &c.target
	if !t.pool.IsZero() {
		p := k.s.server.truth.pool(t.pool)
		p.calls = append(p.calls, c)
		p.observe() // the others have a rival
		c.facts.pool = k.pool(t.pool)
	}
	if !t.session.IsZero() {
		c.facts.session = k.session(t.session)
	}
	if !t.lease.IsZero() && c.facts.pool != nil {
		c.facts.lease = c.facts.pool.byHash[t.lease]
	}
	k.beginLease(c)
	k.beginSession(c)
	k.beginPlace(c)
	if c.wait() > 0 {
		k.waits = append(k.waits, c)
	}
	if _, follows := c.request.(peer.Follow); !follows {
		k.expect(c, k.deadline(c))
	}
}

// deadline is when a call must have been answered. A peer that stood still is
// given as long again, and a wait lasts by the peer's clock, which may have stood
// still as well.
func (k *checker) deadline(c *call) Instant {
	from := c.node.time(c.local.Add(c.wait()))
	if c.gaveUp != 0 {
		from = min(from, c.gaveUp)
	}
	if c.node.stood > c.start {
		from = max(from, c.node.stood.Add(c.wait()))
	}
	return from.Add(patience + time.Second + k.s.slowest())
}

// expect looks at a call when it must have been answered.
func (k *checker) expect(c *call, at Instant) {
	k.s.at(at, func() {
		if c.end != 0 {
			return
		}
		if c.node.pauses > 0 {
			k.expect(c, k.s.now.Add(patience))
			return
		}
		if later := k.deadline(c); later > k.s.now {
			k.expect(c, later)
			return
		}
		k.s.fail("answers", "call %d of %s to %s, asked %v ago, has no answer: %s", c.id, c.client, c.node.name(), k.s.now.Sub(c.start), describeRequest(c.request))
	})
}

// answered holds an answer against what is known.
func (k *checker) answered(c *call) {
	delete(k.opened, c.id)
	t := &c.target
	if !t.pool.IsZero() {
		p := k.s.server.truth.pool(t.pool)
		c.window.observe(p, c, p.pending())
		if t.takes && c.unknown() {
			p.left = k.s.now
		}
		for i, other := range p.calls {
			if other == c {
				p.calls = append(p.calls[:i], p.calls[i+1:]...)
				break
			}
		}
	}
	k.answeredError(c)
	k.answeredSession(c)
	k.answeredPlace(c)
	k.answeredPool(c)
	k.answeredLease(c)
}

// answeredError holds the errors that any request may have against the stream.
func (k *checker) answeredError(c *call) {
	caps := k.s.plan.Caps
	w := &c.window
	switch err := c.answer.Err; {
	case err == nil || c.unknown() || k.shaken(c):
	case isAny(err, peer.ErrNoPool):
		if w.seen && !w.absent {
			k.wrong(c, "the pool was registered all the time")
		}
	case isAny(err, peer.ErrNoSlot):
		k.refusedSlot(c)
	case isAny(err, peer.ErrLimitMismatch):
		if !w.others {
			k.wrong(c, "it was in use under no other terms")
		}
	case isAny(err, peer.ErrMaxLocks) && caps.Locks == 0, isAny(err, peer.ErrMaxWaiters) && caps.Waiters == 0,
		isAny(err, peer.ErrMaxSessions) && caps.Sessions == 0, isAny(err, peer.ErrMaxSessionsPerOrigin) && caps.SessionsPerOrigin == 0:
		k.wrong(c, "there is no such cap")
	}
}

// refusedSlot holds "no slot" against the stream: it is wrong if a slot was
// neither taken nor waited for all the time, and if it came too early.
func (k *checker) refusedSlot(c *call) {
	w := &c.window
	left := k.s.server.truth.pool(c.facts.pool.id).left
	if left != 0 && left.Add(patience+time.Second) >= c.start {
		return // something may have been under way for a call that is no more
	}
	if w.free > 0 {
		k.wrong(c, fmt.Sprintf("%d slots were free and unclaimed all the time", w.free))
	}
	if t := &c.target; t.named && w.taken.most == 0 && w.waiting.most == 0 && w.rivals == 0 {
		k.wrong(c, "no slot was taken, and none was waited for")
	}
	if took := c.end.Sub(c.start); took < c.wait()-time.Millisecond && c.gaveUp == 0 {
		k.wrong(c, fmt.Sprintf("it was refused after %v of its wait of %v", took, c.wait()))
	}
}

// wrong reports a wrong answer.
func (k *checker) wrong(c *call, why string) {
	k.s.fail("wrong answer", "call %d of %s to %s, asked %v before: %s: %s; but %s",
		c.id, c.client, c.node.name(), c.end.Sub(c.start), describeRequest(c.request), describeAnswer(&c.answer), why)
}

// shaken reports whether the stream has lost something that the peer of a call
// may not have noticed, or that was known when the call began.
func (k *checker) shaken(c *call) bool {
	return k.lostAt != 0 && (c.start <= k.lostAt.Add(time.Second) || !c.aware)
}

// aware reports whether a peer must have noticed the last loss: it has read the
// stream since then, or there was peace for long enough. A purged stream goes on
// without a word, so that a peer notices it by the first write that is refused.
func (k *checker) aware(n *node) bool {
	const notice = 15 * time.Second
	calm := &k.s.calm
	return n.born > k.lostAt || n.peer != nil && n.peer.Counters().Rebuilds > n.rebuilds || calm.active == 0 && calm.since.Add(notice) <= k.s.now
}

// counters adds what a peer has counted in its life.
func (k *checker) counters(n *node, c peer.Counters) {
	t := &k.totals
	t.Claims += c.Claims
	t.Voids += c.Voids
	t.Conflicts += c.Conflicts
	t.Barriers += c.Barriers
	t.Skips += c.Skips
	t.Rebuilds += c.Rebuilds
	t.Checks += c.Checks
	t.Writes += c.Writes
	t.Grants += c.Grants
	t.Resent += c.Resent
	t.Early += c.Early
	m := k.s.met
	m.addN("peer: skips", c.Skips)
	m.addN("peer: voids", c.Voids)
	m.addN("peer: conflicts", c.Conflicts)
	m.addN("peer: barriers", c.Barriers)
	m.addN("peer: rebuilds", c.Rebuilds)
	m.addN("peer: checks", c.Checks)
	m.addN("peer: resent", c.Resent)
	m.addN("peer: applied at its acknowledgement", c.Early)
	m.addN("peer: grants", c.Grants)
	if k.s.plan.Calm() && c.Rebuilds > 0 {
		k.s.fail("rebuild", "%s has rebuilt its view %d times without a fault", n.name(), c.Rebuilds)
	}
}
