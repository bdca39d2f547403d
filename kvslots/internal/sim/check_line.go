package sim

import (
	"time"

	"github.com/kvslots/kvslots/kvslots/internal/entry"
	"github.com/kvslots/kvslots/kvslots/internal/rules"
)

// presenceGone is for how long a peer must have watched in peace for the tickets of
// those that were dead before to have left the lines. Without such a peer they stay.
const presenceGone = 12 * time.Second

// rebuilt is when all peers have built their views anew that do so after a loss.
const rebuilt = 15 * time.Second

// quietTime is for how long a peer may write nothing that other peers take for a sign
// of life: it refreshes its presence every 3 s.
const quietTime = 3 * time.Second

// troubled notes that a peer has died, stands still or goes on again: its tickets
// may have to be passed over.
func (k *checker) troubled() { k.troubles = append(k.troubles, k.s.now) }

// troublesSince counts them.
func (k *checker) troublesSince(at Instant) (n int) {
	for i := len(k.troubles) - 1; i >= 0 && k.troubles[i] >= at; i-- {
		n++
	}
	return n
}

// tend notes up to when dead peers have surely left the lines. A new watch gives
// every session its idle time again.
func (k *checker) tend() {
	calm := &k.s.calm
	for _, n := range k.s.nodes {
		from := max(n.born, n.stood, calm.others)
		if n.usable() && n.pauses == 0 && calm.active == calm.lone && from.Add(presenceGone) <= k.s.now {
			k.tended = k.s.now.Add(-presenceGone)
		}
	}
}

// checkPassedOver demands that a dead or paused peer holds up no caller of
// another one. Each such peer may let one turn pass, and each enqueued ticket.
func (k *checker) checkPassedOver(c *call) {
	s, n := k.s, c.node
	p := s.server.truth.pool(c.facts.pool.id)
	since := max(c.start, p.freeSince)
	if p.freeSince == 0 || n.pauses > 0 || n.stood > since || !s.calm.othersBy(since) || s.slowest() > 300*time.Millisecond {
		return
	}
	from := min(since.Add(-presenceGone), k.tended)
	turns := k.troublesSince(from)
	if k.lostAt != 0 && from <= k.lostAt.Add(rebuilt) {
		turns += len(s.nodes) // each has a new presence, and has left one behind
	}
	for _, t := range p.tickets {
		if t.Wait.Enqueued() {
			turns++
		}
	}
	bound := 2*time.Second + 8*s.slowest() + time.Duration(turns)*1200*time.Millisecond
	if since.Add(bound) <= s.now {
		s.fail("passed over", "call %d of %s to %s has waited for %v, and a slot has been free for %v: no peer but %d others can have let its turn pass",
			c.id, c.client, n.name(), s.now.Sub(c.start), s.now.Sub(p.freeSince), turns)
	}
}

// keeps reports whether a ticket is one that a session has enqueued which is
// certainly alive: any peer may claim for it, whether its caller waits or not.
func (k *checker) keeps(t *ticketTruth) bool {
	s := k.sessions[t.Key.Session]
	return t.Wait.Enqueued() && s != nil && k.s.now < s.sure
}

// mayBePassed reports whether the peers may have passed over a ticket though there was
// no fault. They pass over all tickets of a peer that lets a turn pass for 1 s, until
// they see an entry of that peer. A peer whose view is late can do so: it loses its
// claims to others, and a claim of which it cannot know whether it is good is in doubt
// for as long as that.
func (k *checker) mayBePassed(t *ticketTruth) bool {
	if k.s.plan.Net.Lag == 0 {
		return false
	}
	if at, ok := k.overdue[t.server()]; ok && k.s.now.Sub(at) < quietTime+k.s.slowest() {
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

// ticketEnded notes when a ticket ends whose turn may have been let pass.
func (k *checker) ticketEnded(t *ticketTruth) {
	if t != nil && k.s.now.Sub(t.at) >= rules.StallTime {
		k.overdue[t.server()] = k.s.now
	}
}

// server is the presence of the peer that claims for a ticket.
func (t *ticketTruth) server() entry.Hash {
	if t.Wait.Peer.IsZero() {
		return t.Key.Session
	}
	return t.Wait.Peer
}

// checkQueued demands that "queued" was told of a ticket whose generation was in
// force, and lent, while the ticket stood: what stands in line for another one is
// never served.
func (k *checker) checkQueued(c *call) {
	p := k.s.server.truth.pool(c.facts.pool.id)
	for _, t := range p.tickets {
		if t.Wait.Lease == c.target.lease && !t.inForce {
			k.wrong(c, "its ticket was never one of a generation in force")
		}
	}
}

// note takes down since when a slot is free, and which tickets have been in force.
func (p *poolTruth) note(now Instant) {
	switch free := p.count() > len(p.slots); {
	case !free:
		p.freeSince = 0
	case p.freeSince == 0:
		p.freeSince = now
	}
	if p.count() == 0 {
		return
	}
	for _, t := range p.tickets {
		t.inForce = t.inForce || t.Wait.Generation == p.config.Config.Generation
	}
}
