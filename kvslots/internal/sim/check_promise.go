package sim

import (
	"time"

	"github.com/kvslots/kvslots/kvslots/internal/entry"
	"github.com/kvslots/kvslots/kvslots/internal/peer"
)

// noticed is how long the stream must have been without a leader for all peers to
// have lost their watches.
const noticed = 4 * time.Second

// ledAgain is called when the stream has a leader again, and no other fault was
// there at the end. Time without a leader is no idle time: each peer leaves every
// session some time from its next watch on.
func (k *checker) ledAgain(from Instant) {
	if k.s.calm.active > 1 {
		return
	}
	for _, s := range k.sessions {
		if s.ended == never && s.sure >= from {
			s.sure = max(s.sure, k.s.now.Add(s.tau/2))
		}
	}
}

// checkKept demands that a session lives for as long as a call of it waits at a
// peer that runs: the peer refreshes it.
func (k *checker) checkKept(s *session, e *entry.Entry) {
	if s.ended < never || k.s.slowest() > s.tau/4 || k.s.server.stepped > 0 {
		return
	}
	for _, c := range inOrder(k.opened) {
		switch c.request.(type) {
		case peer.Acquire, peer.Await:
		default:
			continue
		}
		n := c.node
		if c.facts.session != s || !c.begun || c.gaveUp != 0 || !n.usable() || n.pauses > 0 || !k.s.calm.by(c.start) || c.facts.idle || k.s.now >= c.start.Add(c.wait()) {
			continue
		}
		k.s.fail("session ended early", "session %s, idle timeout %v, has ended while call %d of it waits at %s: %s",
			short(s.hash), s.tau, c.id, n.name(), describeEntry(e))
	}
}
