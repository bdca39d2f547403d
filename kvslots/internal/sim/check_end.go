package sim

import (
	"time"

	"github.com/kvslots/kvslots/kvslots/internal/entry"
	"github.com/kvslots/kvslots/kvslots/internal/sim/stream"
)

// end checks what is left when everything has been returned, or has expired.
func (k *checker) end() {
	t := k.s.server.truth
	t.catchUp()
	for _, m := range k.s.server.stream.All() {
		e := m.Entry()
		if e.Marker || k.s.server.setBack && k.s.server.stream.Met(stream.Revived) > 0 { // it may have come back
			continue
		}
		switch e.Key.Kind {
		case entry.Config:
			if e.Config.Named() && k.s.server.stream.Met(stream.Revived) == 0 {
				k.s.fail("left over", "an idle name is not closed: %s", describeEntry(&e))
			}
		case entry.Session:
			if e.Session.Kind != entry.SessionPeer {
				k.s.fail("left over", "%s", describeEntry(&e))
			}
		case entry.Barrier:
		default:
			k.s.fail("left over", "%s", describeEntry(&e))
		}
	}
	for _, n := range k.s.nodes {
		if n.peer == nil {
			continue
		}
		if err := n.peer.Status(n.clock()); err != nil && k.s.plan.Net.Spikes == 0 {
			k.s.fail("status", "%s is not ready long after the last fault: %v", n.name(), err)
		}
	}
	k.checkWrites()
}

// checkWrites bounds the writes by what was done: a contradiction or a race must
// not be answered with ever more writes.
func (k *checker) checkWrites() {
	for _, n := range k.s.nodes {
		n.count()
	}
	t, s := k.totals, k.s
	virtual := uint64(s.now.Sub(start) / time.Second)
	if most := 40*k.calls + 12*virtual*uint64(len(s.nodes)) + 2000; s.server.messages > most {
		s.fail("writes", "%d writes have reached the stream for %d calls in %d s", s.server.messages, k.calls, virtual)
	}
	if most := 10*t.Grants + 10*k.calls + 100; t.Claims > most {
		s.fail("writes", "%d claims for %d grants and %d calls", t.Claims, t.Grants, k.calls)
	}
}

// beforeLoss takes down what stands, before the stream loses something.
func (k *checker) beforeLoss() (standing map[entry.Hash]uint64) {
	t := k.s.server.truth
	t.catchUp()
	standing = map[entry.Hash]uint64{}
	for _, p := range t.pools {
		for _, e := range p.slots {
			standing[e.Slot.Lease] = e.Revision
		}
	}
	for hash, e := range t.sessions {
		standing[hash] = e.Revision
	}
	return standing
}

// afterLoss makes everything doubtful that the stream may have lost. What stands
// as before is as certain as before.
func (k *checker) afterLoss(standing map[entry.Hash]uint64) {
	t := k.s.server.truth
	t.catchUp()
	k.lostAt = k.s.now
	k.s.calm.pulse(k.s.now.Add(12 * time.Second)) // a view is rebuilt once in 10 s at most
	for _, n := range k.s.nodes {
		if n.peer != nil {
			n.rebuilds = n.peer.Counters().Rebuilds
		}
	}
	for _, p := range k.pools {
		now := t.pool(p.id)
		for _, l := range p.leases {
			if e := now.leaseAt(l.hash); e == nil || e.Revision != standing[l.hash] {
				l.lost, l.over, l.returned = true, never, false // its end may be lost as well
			}
		}
		p.admin = max(p.admin, k.s.now.Add(lateEffect))
	}
	for hash, s := range k.sessions {
		if e, ok := t.sessions[hash]; !ok || e.Revision != standing[hash] {
			s.sure = min(s.sure, k.s.now)
			s.over = never
		}
		for _, p := range s.places {
			p.state = placeMaybe
		}
	}
}

// reread is called when the stream was read anew: a server has started again,
// which must bring nothing back that clients know to be over.
func (k *checker) reread() {
	if k.losing || k.s.server.setBack {
		return
	}
	t := k.s.server.truth
	for _, p := range k.pools {
		now := t.pool(p.id)
		for _, l := range p.leases {
			if l.over == never || l.lost || k.lostAt > l.at {
				continue
			}
			e := now.leaseAt(l.hash)
			if e != nil && k.lives(e) && e.Slot.Generation == now.config.Config.Generation && now.registered() {
				k.s.fail("revived", "a lease that was over, fence %d, stands again: %s", l.fence, describeEntry(e))
			}
		}
	}
	for hash, s := range k.sessions {
		if e, ok := t.sessions[hash]; ok && k.lives(e) && s.over < k.s.now && k.lostAt == 0 {
			k.s.fail("revived", "a session that was over stands again: %s", describeEntry(e))
		}
	}
}

// lives reports whether the server will keep an entry for more than a moment.
func (k *checker) lives(e *entry.Entry) bool {
	v := k.s.server
	return e.TTL == 0 || e.Time.Add(e.TTL-time.Second).After(v.wall().Add(v.clock))
}
