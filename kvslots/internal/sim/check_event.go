package sim

import (
	"github.com/kvslots/kvslots/kvslots/internal/peer"
	"github.com/kvslots/kvslots/kvslots/internal/rules"
)

// events is what the events of a peer say: who holds which slot since it started over.
type events struct {
	*node
	begun Instant              // when it last started over
	held  map[claimKey]Instant // the leases that were granted since, and when
}

// note checks one event against the stream.
func (x *events) note(e *peer.Event) {
	s := x.s
	s.met.add("event")
	if s.lossySoFar() {
		return
	}
	slot := claimKey{rules.SlotKey(e.Pool, e.Position), e.Fence}
	switch e.Kind {
	case peer.StartsOver:
		x.begun = s.now
		clear(x.held)
	case peer.Granted:
		if _, claimed := s.server.truth.claims[slot]; !claimed {
			s.fail("event", "%s tells of a grant that is not in the stream: %+v", x.name(), *e)
		}
		x.held[slot] = s.now
	case peer.Deleted:
		for held := range x.held {
			if held.slot.Pool == e.Pool {
				delete(x.held, held)
			}
		}
	case peer.Returned, peer.LeaseOver, peer.LeaseEvicted, peer.SessionOver:
		if e.Fence != 0 {
			x.over(e, slot)
		}
	}
}

// over checks the end of a lease.
func (x *events) over(e *peer.Event, slot claimKey) {
	s := x.s
	l := s.check.pool(e.Pool).leaseWith(e.Position, e.Fence)
	if _, granted := x.held[slot]; !granted && l != nil && !l.uncertain && l.claimedAt > x.begun.Add(s.maxLatency()) {
		s.fail("event", "%s tells of the end of a lease, and has not told of its grant %v ago: %+v", x.name(), s.now.Sub(l.claimedAt), *e)
	}
	delete(x.held, slot)
	if l != nil && l.certainlyLive(s.now) && !s.server.mayMisjudgeAge(l.claimedAt) {
		s.fail("event", "%s tells of the end of a lease that is promised for %v more: %+v", x.name(), l.promisedUntil.Sub(s.now), *e)
	}
	if e.Kind == peer.LeaseEvicted && !s.check.evictions[slot] {
		s.fail("event", "%s tells of an eviction that nobody has asked for: %+v", x.name(), *e)
	}
}

// checkEnd fails the run if a lease has ended, as all have, and no event has said so.
func (x *events) checkEnd() {
	for slot, since := range x.held {
		x.s.fail("event", "%s has told of the grant of %s with fence %d %v ago, and not of its end", x.name(), slot.slot, slot.fence, x.s.now.Sub(since))
		return
	}
}

// lossySoFar reports whether the stream has lost anything in this run, or may have brought anything
// back: then a peer may tell of what is not in it any more.
func (s *Simulation) lossySoFar() bool {
	return s.check.lastLoss != 0 || s.server.clockWentBack || s.server.mayRevive() || s.plan.Clock > maxGuardedClock
}
