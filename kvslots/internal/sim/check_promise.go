package sim

import (
	"time"

	"github.com/kvslots/kvslots/kvslots/internal/entry"
	"github.com/kvslots/kvslots/kvslots/internal/peer"
)

// watchLossTime is how long the stream has to be without a leader until every peer has
// lost its watch.
const watchLossTime = 4 * time.Second

// leaderReturned extends the sessions when the stream has a leader again, if no other
// fault was active. Time without a leader does not count as idle: after its next watch
// begins, each peer gives every session some time.
func (k *checker) leaderReturned(from Instant) {
	if k.s.faultState.active > 1 {
		return
	}
	for _, s := range k.sessions {
		if s.endingSince == never && s.aliveUntil >= from {
			s.aliveUntil = max(s.aliveUntil, k.s.now.Add(s.idleTimeout/2))
		}
	}
}

// checkRefreshed fails the run if a session ends while a call of it waits at a running
// peer, which has to refresh the session.
func (k *checker) checkRefreshed(s *session, e *entry.Entry) {
	if s.endingSince < never || k.s.maxLatency() > s.idleTimeout/4 || k.s.server.steppedAt > 0 {
		return
	}
	for _, c := range valuesInOrder(k.openCalls) {
		switch c.request.(type) {
		case peer.Acquire, peer.Await:
		default:
			continue
		}
		n := c.node
		if c.facts.session != s || !c.delivered || c.decided != 0 || c.gaveUp != 0 || !n.serving() || n.pauses > 0 || !k.s.faultState.settledAt(c.start) || c.facts.mayBeIdle || k.s.now >= c.start.Add(c.target.wait) {
			continue
		}
		k.s.fail("session ended early", "session %s, idle timeout %v, has ended while call %d waits at %s: %s",
			short(s.hash), s.idleTimeout, c.id, n.name(), describeEntry(e))
	}
}

// untold fails the run if a granted lease that its client was not told of stays in the
// stream, although its peer runs.
func (k *checker) untold(c *call, g *peer.Grant) {
	s, n, lease := k.s, c.node, leaseOfClaim(c.target.lease, g.Claim)
	_, awaits := c.request.(peer.Await)
	if awaits {
		lease = leaseOf(c.target.session, g.Nonce)
	}
	e := s.server.truth.pool(c.target.pool).leaseAt(lease)
	if _, renews := c.request.(peer.Renew); renews || e == nil || awaits && e.Slot.Ticket == 0 {
		return // the lease has ended, or an earlier answer granted it
	}
	since, within := s.now, time.Second/2+8*s.maxLatency()
	if c.facts.key != nil {
		within += s.plan.Grace
	}
	s.after(within, n.alive(func() {
		if !c.facts.key.endedWith(c) {
			return
		}
		now := s.server.truth.pool(c.target.pool).leaseAt(lease)
		if now != nil && now.Revision == e.Revision && s.faultState.settledAt(since) && n.pauses == 0 {
			s.fail("untold", "%v ago call %d was answered with an error in place of a lease, which is still in the stream: %s", within, c.id, describeEntry(e))
		}
	}))
}
