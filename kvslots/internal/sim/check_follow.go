package sim

import (
	"slices"
	"time"

	"github.com/kvslots/kvslots/kvslots/internal/entry"
)

// toldTime is how long a peer without faults may take to tell a follower of the end of a
// lease, beyond the delays of the network.
const toldTime = time.Second

type follow struct {
	*call
	overSince Instant // 0: the lease is live
}

func (k *checker) checkFollows() {
	s := k.s
	k.follows = slices.DeleteFunc(k.follows, func(f *follow) bool { return f.end != 0 })
	for _, f := range k.follows {
		if s.server.truth.isLive(f.target.pool, f.target.lease) {
			f.overSince = 0
			continue
		}
		if f.overSince == 0 {
			f.overSince = s.now
		}
		told := f.overSince.Add(toldTime + 8*s.maxLatency())
		if told <= s.now && f.node.serving() && f.node.pauses == 0 && s.faultState.settledAt(f.overSince) {
			s.fail("not told", "%v after the end of lease %s, %s has not answered call %d, which follows it",
				s.now.Sub(f.overSince), short(f.target.lease), f.node.name(), f.id)
		}
	}
}

// isLive reports whether a lease is in the stream, its generation in force, and its session
// alive.
func (t *truth) isLive(pool, lease entry.Hash) bool {
	p := t.pool(pool)
	for _, e := range p.slots {
		if e.Slot.Lease == lease && t.holds(p, e) {
			return true
		}
	}
	return false
}

// holds reports whether a slot is lent: its generation is in force, and its session, if it
// has one, is alive.
func (t *truth) holds(p *poolTruth, e *entry.Entry) bool {
	return p.registered() && e.Slot.Generation == p.config.Config.Generation &&
		(e.Slot.Session.IsZero() || t.sessions[e.Slot.Session] != nil)
}
