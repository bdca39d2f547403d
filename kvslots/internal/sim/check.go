package sim

import (
	"fmt"
	"math"
	"slices"
	"time"

	"github.com/kvslots/kvslots/kvslots/internal/entry"
	"github.com/kvslots/kvslots/kvslots/internal/peer"
	"github.com/kvslots/kvslots/kvslots/internal/rules"
)

const (
	answerTime = 5 * time.Second // maximal time from the end of a call's wait to its answer
	checkEvery = 250 * time.Millisecond
	never      = Instant(1 << 62)
)

type Failure struct {
	Check string
	At    time.Duration // since the start of the run
	Text  string
}

func (f *Failure) String() string { return fmt.Sprintf("%s, after %v: %s", f.Check, f.At, f.Text) }

// fail ends the run. Only the first failure is kept.
func (s *Simulation) fail(check, format string, args ...any) {
	if s.failed == nil {
		s.failed = &Failure{check, s.now.Sub(start), fmt.Sprintf(format, args...)}
		for _, n := range s.nodes {
			if s.trace != nil && n.peer != nil {
				n.traceDifference()
			}
		}
		s.tracef("FAILURE", "%s", s.failed)
	}
}

// checker compares the answers that clients receive with what they asked, with earlier
// answers, and with the stream.
type checker struct {
	s            *Simulation
	calls        uint64 // number of calls so far
	openCalls    map[uint64]*call
	pools        map[entry.Hash]*pool
	sessions     map[entry.Hash]*session
	claims       uint64 // of peers that have stopped
	grants       uint64
	idleTimes    uint64  // how many idle timeouts the sessions have lived that ended in the stream
	lastLoss     Instant // when the stream last lost data; 0: never
	waitingCalls []*call // calls that may wait for a slot
	surveys      []*call // calls under way that read the state of pools
	lines        lineChecker
	losses       lossChecker
	catchUps     catchUpChecker
	marks        markChecker
	caps         capChecker
	abandoned    abandonedChecker
	keys         map[entry.Hash]*requestKey
	evictions    map[claimKey]bool // the leases that calls of Evict have named
}

func newChecker(s *Simulation) *checker {
	k := &checker{s: s, openCalls: map[uint64]*call{}, pools: map[entry.Hash]*pool{}, sessions: map[entry.Hash]*session{}, keys: map[entry.Hash]*requestKey{}, evictions: map[claimKey]bool{}}
	k.lines = lineChecker{checker: k, lastStall: map[entry.Hash]Instant{}}
	k.losses = lossChecker{checker: k, at: map[entry.Hash]Instant{}, ofKeys: map[entry.Key]Instant{}}
	k.catchUps = catchUpChecker{checker: k, brokenAt: map[*node]Instant{}}
	k.marks = newMarkChecker(k)
	k.abandoned = abandonedChecker{checker: k}
	k.caps = capChecker{checker: k, usedAt: map[entry.Hash]Instant{}, idle: map[entry.Hash]bool{}, shares: map[entry.Hash]share{}, origins: map[entry.Hash]share{}}
	return k
}

func (k *checker) begin(c *call) {
	k.calls++
	k.openCalls[c.id] = c
	c.target = targetOf(c.request)
	t := &c.target
	if !t.pool.IsZero() {
		p := k.s.server.truth.pool(t.pool)
		p.calls = append(p.calls, c)
		p.observe() // the other calls have a competitor more
		c.facts.pool = k.pool(t.pool)
	}
	if !t.session.IsZero() {
		c.facts.session = k.session(t.session)
	}
	if !t.lease.IsZero() && c.facts.pool != nil {
		c.facts.lease = c.facts.pool.byHash[t.lease]
	}
	k.s.server.truth.observeTotals()
	k.beginKey(c)
	k.beginLease(c)
	k.beginSession(c)
	k.beginLinePlace(c)
	k.beginReading(c)
	if c.target.wait > 0 {
		k.waitingCalls = append(k.waitingCalls, c)
	}
	k.expectAnswer(c, k.deadline(c))
}

// deadline returns when a call must have been answered. A peer that was paused is given
// as long again. A wait lasts by the peer's clock, which may have stood still, too.
func (k *checker) deadline(c *call) Instant {
	from := c.node.simTime(c.startByPeer.Add(c.target.wait))
	if c.gaveUp != 0 {
		from = min(from, c.gaveUp)
	}
	if c.node.pausedUntil > c.start {
		from = max(from, c.node.pausedUntil.Add(c.target.wait))
	}
	return from.Add(answerTime + time.Second + k.s.maxLatency() + k.s.plan.Flush.Delay)
}

// expectAnswer fails the run if the call has not been answered by its deadline.
func (k *checker) expectAnswer(c *call, at Instant) {
	k.s.at(at, func() {
		if c.end != 0 {
			return
		}
		if c.node.pauses > 0 {
			k.expectAnswer(c, k.s.now.Add(answerTime))
			return
		}
		if later := k.deadline(c); later > k.s.now {
			k.expectAnswer(c, later)
			return
		}
		k.s.fail("answers", "call %d of %s to %s, sent %v ago, has no answer: %s", c.id, c.client, c.node.name(), k.s.now.Sub(c.start), describeRequest(c.request))
	})
}

func (k *checker) answered(c *call) {
	delete(k.openCalls, c.id)
	t := &c.target
	if !t.pool.IsZero() {
		p := k.s.server.truth.pool(t.pool)
		c.window.observe(p, c, p.pending())
		if t.takes && c.unknown() {
			p.unknownEndedAt = k.s.now
		}
		p.calls = slices.DeleteFunc(p.calls, func(other *call) bool { return other == c })
	}
	k.answeredError(c)
	k.checkUnavailable(c)
	k.answeredKey(c)
	k.catchUps.answered(c)
	k.answeredSession(c)
	k.answeredLinePlace(c)
	k.answeredPool(c)
	k.answeredLease(c)
	k.answeredReading(c)
	if _, confirms := c.request.(peer.Confirm); confirms {
		k.confirmed(c)
	}
	k.abandoned.answered(c)
	k.checkStates(c)
}

func (k *checker) answeredError(c *call) {
	caps := k.s.plan.Caps
	w := &c.window
	switch err := c.answer.Err; {
	case err == nil || c.unknown() || k.mayReflectLoss(c):
	case isAny(err, peer.ErrNoPool):
		if w.seen && !w.wasAbsent {
			k.wrong(c, "the pool was registered all the time")
		}
	case isAny(err, peer.ErrNoSlot):
		k.checkNoSlot(c)
	case isAny(err, peer.ErrEvicted):
		if l := c.facts.lease; l != nil && !l.uncertain && !k.evictions[claimKey{rules.SlotKey(c.target.pool, l.position), l.fence}] {
			k.wrong(c, "no call has evicted the lease")
		}
	case isAny(err, peer.ErrLimitMismatch):
		if !w.otherTerms {
			k.wrong(c, "the name was in use under no other terms")
		}
	case isAny(err, peer.ErrMaxPools) && w.seen && !w.wasAbsent:
		k.wrong(c, "the pool was registered all the time, and a change of its count needs no room")
	case isAny(err, peer.ErrMaxPools) && caps.Pools == 0, isAny(err, peer.ErrMaxLocks) && caps.Locks == 0,
		isAny(err, peer.ErrMaxWaiters) && c.target.named && caps.Waiters == 0,
		isAny(err, peer.ErrMaxWaiters) && !c.target.named && caps.PoolWaiters == 0,
		isAny(err, peer.ErrMaxSessions) && caps.Sessions == 0, isAny(err, peer.ErrMaxSessionsPerOrigin) && caps.SessionsPerOrigin == 0,
		isAny(err, peer.ErrMaxLocksPerSession) && caps.LocksPerSession == 0, isAny(err, peer.ErrMaxLocksPerOrigin) && caps.LocksPerOrigin == 0,
		isAny(err, peer.ErrMaxTombstones) && caps.Tombstones == 0:
		k.wrong(c, "no such cap is configured")
	case isAny(err, peer.ErrMaxPools) && w.most.pools < caps.Pools, isAny(err, peer.ErrMaxLocks) && w.most.locks < caps.Locks,
		isAny(err, peer.ErrMaxSessions) && w.most.sessions < caps.Sessions,
		isAny(err, peer.ErrMaxSessionsPerOrigin) && w.most.ofOrigin < caps.SessionsPerOrigin,
		isAny(err, peer.ErrMaxLocksPerSession) && w.most.locksOfSession < caps.LocksPerSession,
		isAny(err, peer.ErrMaxLocksPerOrigin) && w.most.locksOfOrigin < caps.LocksPerOrigin,
		isAny(err, peer.ErrMaxWaiters) && c.target.named && k.mostWaiting(c) < caps.Waiters,
		isAny(err, peer.ErrMaxWaiters) && !c.target.named && k.mostWaiting(c) < caps.PoolWaiters:
		k.wrong(c, fmt.Sprintf("the cap was never reached: there were %+v and %d waiters at most", w.most, k.mostWaiting(c)))
	}
}

// mostWaiting returns how many tickets stood in the pool's line at most while a call was
// under way, with those that other calls may have been writing.
func (k *checker) mostWaiting(c *call) int {
	if c.facts.pool == nil {
		return 0
	}
	p := k.s.server.truth.pool(c.facts.pool.id)
	if left := p.unknownEndedAt; left != 0 && left.Add(answerTime+time.Second) >= c.start {
		return math.MaxInt
	}
	return c.window.waiting.max + c.window.maxRivals
}

// checkNoSlot checks an ErrNoSlot. The error is wrong if a slot was unclaimed all the
// time, or if it came before the end of the wait.
func (k *checker) checkNoSlot(c *call) {
	w, p := &c.window, k.s.server.truth.pool(c.facts.pool.id)
	if left := p.unknownEndedAt; left != 0 && left.Add(answerTime+time.Second) >= c.start {
		return // a claim of an unanswered call may still have been under way
	}
	if _, awaits := c.request.(peer.Await); awaits && c.end.Sub(p.freeSince) < time.Second+k.s.maxLatency() {
		return // so may the claim for the session's ticket, which began before the call
	}
	if w.minFree > 0 {
		k.wrong(c, fmt.Sprintf("%d slots were free and unclaimed all the time", w.minFree))
	}
	if t := &c.target; t.named && w.taken.max == 0 && w.waiting.max == 0 && w.maxRivals == 0 && !w.wasOut {
		k.wrong(c, "no slot was taken, and no ticket was in line")
	}
	if took := c.end.Sub(c.start); took < c.target.wait-time.Millisecond && c.gaveUp == 0 {
		k.wrong(c, fmt.Sprintf("the call was refused after %v of its wait of %v", took, c.target.wait))
	}
}

func (k *checker) wrong(c *call, why string) {
	k.s.fail("wrong answer", "call %d of %s to %s, sent %v before: %s: %s; but %s",
		c.id, c.client, c.node.name(), c.end.Sub(c.start), describeRequest(c.request), describeAnswer(&c.answer), why)
}

// mayReflectLoss reports whether an answer may be based on data that the stream has
// lost: the call began before a loss that concerns its pool or session, or its peer may not have
// noticed that.
func (k *checker) mayReflectLoss(c *call) bool {
	at := k.losses.of(c)
	return at != 0 && (c.start <= at.Add(time.Second) || !c.peerNoticedLoss)
}

// hasNoticedLoss reports whether a peer must have noticed the last loss: it has read
// the stream since then, or no fault was active for long enough. A purge breaks no
// watch, so that a peer notices it by the first refused write.
func (k *checker) hasNoticedLoss(n *node) bool {
	const notice = 15 * time.Second
	faults := &k.s.faultState
	return n.startedAt > k.lastLoss || n.peer != nil && n.peer.Counters().Rebuilds > n.rebuildsAtLoss || faults.active == 0 && faults.noneSince.Add(notice) <= k.s.now
}

func (k *checker) addCounters(n *node, c peer.Counters) {
	k.claims += c.Claims
	k.grants += c.Grants
	for what, n := range map[string]uint64{
		"skips": c.Skips, "voids": c.Voids, "conflicts": c.Conflicts, "barriers": c.Barriers, "rebuilds": c.Rebuilds,
		"catch-ups": c.CatchUps, "resent": c.Resent, "grants": c.Grants,
	} {
		k.s.met.addN("peer: "+what, n)
	}
	if k.s.plan.FaultFree() && c.Rebuilds > 0 {
		k.s.fail("rebuild", "%s rebuilt its view %d times without a fault", n.name(), c.Rebuilds)
	}
}
