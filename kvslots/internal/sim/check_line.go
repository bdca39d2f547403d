package sim

import (
	"time"

	"github.com/kvslots/kvslots/kvslots/internal/entry"
	"github.com/kvslots/kvslots/kvslots/internal/rules"
)

// cleanupTime is how long a peer without faults needs until the tickets of all peers
// that died before are gone.
const cleanupTime = 12 * time.Second

// rebuildTime is how long the peers need to rebuild their views after a loss of data.
const rebuildTime = 15 * time.Second

// quietTime is how long a live peer may write nothing that shows others that it is
// alive. It refreshes its presence every 3 s.
const quietTime = 3 * time.Second

type lineChecker struct {
	*checker
	lastStall     map[entry.Hash]Instant // by peer: when a ticket last ended that had stood for StallTime or longer
	interruptions []Instant              // when peers died, paused or resumed
	cleanedUntil  Instant                // peers that died before then have no tickets left
}

// noteInterruption records that a peer died, paused or resumed, so that other peers may
// have to pass over its tickets.
func (k *lineChecker) noteInterruption() { k.interruptions = append(k.interruptions, k.s.now) }

func (k *lineChecker) interruptionsSince(at Instant) (n int) {
	for i := len(k.interruptions) - 1; i >= 0 && k.interruptions[i] >= at; i-- {
		n++
	}
	return n
}

// updateCleaned updates cleanedUntil. It counts only peers whose watch was undisturbed
// for cleanupTime, since a new watch gives every session its idle time again.
func (k *lineChecker) updateCleaned() {
	faults := &k.s.faultState
	for _, n := range k.s.nodes {
		from := max(n.startedAt, n.pausedUntil, faults.noOthersSince)
		if n.serving() && n.pauses == 0 && faults.active == faults.peerFaults && from.Add(cleanupTime) <= k.s.now {
			k.cleanedUntil = k.s.now.Add(-cleanupTime)
		}
	}
}

// checkPassedOver fails the run if a dead or paused peer delays a caller of another
// peer for too long. Each such peer and each enqueued ticket may delay it by one turn.
func (k *lineChecker) checkPassedOver(c *call) {
	s, n := k.s, c.node
	p := s.server.truth.pool(c.facts.pool.id)
	since := max(c.start, p.freeSince)
	if p.freeSince == 0 || n.pauses > 0 || n.pausedUntil > since || !s.faultState.othersSettledAt(since) || s.maxLatency() > 300*time.Millisecond {
		return
	}
	from := min(since.Add(-cleanupTime), k.cleanedUntil)
	turns := k.interruptionsSince(from)
	if k.lastLoss != 0 && from <= k.lastLoss.Add(rebuildTime) {
		turns += len(s.nodes) // each has left an old presence behind
	}
	for _, t := range p.tickets {
		if t.Ticket.Enqueued() {
			turns++
		}
	}
	bound := 2*time.Second + 8*s.maxLatency() + time.Duration(turns)*1200*time.Millisecond
	if since.Add(bound) <= s.now {
		s.fail("passed over", "call %d of %s to %s has waited for %v, and a slot has been free for %v: at most %d turns can have been missed",
			c.id, c.client, n.name(), s.now.Sub(c.start), s.now.Sub(p.freeSince), turns)
	}
}

// isEnqueuedAlive reports whether the ticket is that of an enqueued session that is
// certainly alive. Any peer may claim for such a ticket, whether or not its caller
// waits.
func (k *lineChecker) isEnqueuedAlive(t *ticketTruth) bool {
	s := k.sessions[t.Key.Session]
	return t.Ticket.Enqueued() && s != nil && k.s.now < s.aliveUntil
}

// mayBePassedOver reports whether the peers may have passed over a ticket without a
// fault. They pass over all tickets of a peer that has let a turn pass for 1 s, until
// they see an entry of that peer. A peer with a late view may let turns pass, because
// it loses its claims to others and has to wait for doubtful ones.
func (k *lineChecker) mayBePassedOver(t *ticketTruth) bool {
	if k.s.plan.Net.Lag == 0 {
		return false
	}
	if at, ok := k.lastStall[t.server()]; ok && k.s.now.Sub(at) < quietTime+k.s.maxLatency() {
		return true
	}
	for _, p := range k.s.server.truth.pools {
		for _, o := range p.tickets {
			if o.server() == t.server() && k.s.now.Sub(o.at) >= rules.StallTime {
				return true
			}
		}
	}
	return false
}

// ticketEnded records the end of a ticket that may have let a turn pass. A view may show
// the ticket for longer than it stood, since it may learn of its end later than of its
// beginning.
func (k *lineChecker) ticketEnded(t *ticketTruth) {
	if t != nil && k.s.now.Sub(t.at) >= rules.StallTime-k.s.maxLatency() {
		k.lastStall[t.server()] = k.s.now
	}
}

func (t *ticketTruth) server() entry.Hash {
	if t.Ticket.Peer.IsZero() {
		return t.Key.Session
	}
	return t.Ticket.Peer
}

// checkQueued fails the run if an enqueue was answered "queued" for a ticket that was
// never in a generation in force. Such a ticket is never served.
func (k *lineChecker) checkQueued(c *call) {
	p := k.s.server.truth.pool(c.facts.pool.id)
	for _, t := range p.tickets {
		if t.Ticket.Lease == c.target.lease && !t.wasInForce {
			k.wrong(c, "its ticket was never in a generation in force")
		}
	}
}

// updateFree records since when a slot has been free, and which tickets were of the
// generation in force.
func (p *poolTruth) updateFree(now Instant) {
	switch free := p.count() > 0 && p.free() > 0; {
	case !free:
		p.freeSince = 0
	case p.freeSince == 0:
		p.freeSince = now
	}
	if p.config.Config.Closing || p.size() == 0 {
		return
	}
	for _, t := range p.tickets {
		t.wasInForce = t.wasInForce || t.Ticket.Generation == p.config.Config.Generation
	}
}
