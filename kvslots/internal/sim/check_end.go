package sim

import (
	"time"

	"github.com/kvslots/kvslots/kvslots/internal/entry"
)

// checkEnd checks the stream and the peers after the last lease must have ended.
func (k *checker) checkEnd() {
	t := k.s.server.truth
	t.catchUp()
	alive := 0
	for _, n := range k.s.nodes {
		if n.peer != nil {
			alive++
		}
	}
	for _, m := range k.s.server.stream.All() {
		e := m.Entry()
		if e.Marker || k.s.server.mayRevive(e.Key.Pool) {
			continue
		}
		switch e.Key.Kind {
		case entry.Config:
			if len(e.Config.Out) > 0 { // which the pool has to remember
				continue
			}
			if e.Config.Named() && !k.s.server.stream.RevivedKeys()[e.Key.String()] {
				k.s.fail("left over", "the configuration of an unused name remains: %s", describeEntry(&e))
			}
			if k.s.plan.PoolIdle > 0 && !e.Config.Named() && !k.s.server.stream.RevivedKeys()[e.Key.String()] {
				k.s.fail("left over", "an unused pool remains: %s", describeEntry(&e))
			}
		case entry.Session:
			alive--
			// A spike may delay a living peer's refresh for longer than its idle time, and
			// the others need some time to end the session.
			longest := e.Session.Idle.Duration() + k.s.maxLatency()
			if e.Session.Kind != entry.SessionPeer || k.s.server.ageOf(&e) > longest || alive < 0 {
				k.s.fail("left over", "a session remains that is not a living peer's: %s", describeEntry(&e))
			}
		case entry.Barrier:
		default:
			k.s.fail("left over", "an entry remains: %s", describeEntry(&e))
		}
	}
	for _, n := range k.s.nodes {
		if n.peer == nil {
			continue
		}
		n.events.checkEnd()
		if err := n.peer.Status(n.clock()); err != nil && k.s.plan.Net.Spikes == 0 {
			k.s.fail("status", "%s is not ready long after the last fault: %v", n.name(), err)
		}
	}
	k.checkWrites()
	k.catchUps.checkEnd()
}

// checkWrites bounds the numbers of writes, claims and rebuilds, so that no conflict leads
// to endless writes, and no fault to more rebuilds than one of each peer. In 300 seeds, at
// most 0.7 of each bound was used without the factor for faults. At a long distance, seed
// 160009262 took 2.9 claims for each grant of four peers, nearly all of them one claim of
// each peer over one entry. In the same way each peer refreshes a session that calls use.
func (k *checker) checkWrites() {
	for _, n := range k.s.nodes {
		n.count()
	}
	s := k.s
	met := func(what string) uint64 { return s.met[what] }
	faults := uint64(1)
	if !s.plan.FaultFree() {
		faults = 2
	}
	nodes, seconds, rebuilds := uint64(len(s.nodes)), uint64(s.now.Sub(start)/time.Second), met("peer: rebuilds")
	rivals := uint64(2)
	if s.plan.Net.Uplink+s.plan.Net.Ack+s.plan.Net.Lag >= 20*time.Millisecond { // each peer may write before it learns of the others' writes
		rivals = max(rivals, nodes)
	}
	writes := faults * (3*k.calls + nodes*seconds/2 + rivals*k.idleTimes + 50*rebuilds + 100)
	if sent, again := s.server.messages, met("peer: resent"); sent > writes+again || sent > 10*writes {
		s.fail("writes", "%d writes have reached the stream, and %d were sent again, for %d calls and %d idle timeouts in %d s with %d rebuilds",
			sent, again, k.calls, k.idleTimes, seconds, rebuilds)
	}
	if most := faults * (rivals*k.grants + k.calls/10 + 50); k.claims > most {
		s.fail("writes", "%d claims for %d grants and %d calls", k.claims, k.grants, k.calls)
	}
	pauses := met("fault: "+pausePeer.String()) + met("fault: "+suspendPeer.String())
	// A watch that is late by seconds may be behind the writes of a busy key for as long as the
	// check of the view lasts, which then builds the view anew.
	pauses += met("fault: " + slowFeed.String())
	pauses += nodes*(met("trap: outage")+met("fault: "+deafPeer.String())) + met("fault: "+rebuildView.String())
	if most := nodes*(k.losses.count+s.server.clockSteps) + pauses; rebuilds > most {
		s.fail("rebuild", "%d peers have built their views anew %d times, after %d losses of data, %d steps of a clock and %d pauses, outages or late watches",
			nodes, rebuilds, k.losses.count, s.server.clockSteps, pauses)
	}
}
