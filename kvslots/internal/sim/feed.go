package sim

import (
	"time"

	"github.com/kvslots/kvslots/kvslots/internal/peer"
	"github.com/kvslots/kvslots/kvslots/internal/sim/stream"
)

// feed is a node's subscription to the entries that the stream's leader republishes. They
// come by the node's connection, in one order with the acknowledgements, at most once, and
// without flow control.
type feed struct {
	n          *node
	lags       bool          // entries are delayed by NetPlan.Lag
	extraDelay time.Duration // additional delay while the peer is slow
	stopped    int           // number of faults that keep all entries away
	buffered   int           // entries under way to the peer
	dropped    uint64        // counts how many times the shell has dropped the buffered ones
	sent       uint64        // counts entries that the server has sent
	missed     bool          // the last entry did not reach the peer
}

// republished delivers an entry that a leader has republished, unless it is lost.
func (f *feed) republished(m *stream.Stored) {
	s, n := f.n.s, f.n
	if n.peer == nil || !n.link.up {
		return
	}
	f.sent++
	switch {
	case f.stopped > 0:
		f.lose(m, "trap: entry while the feed stands still")
	case !s.ending && s.chance(s.plan.Feed.Lose):
		f.lose(m, "trap: entry lost")
	default:
		f.missed = false
		f.deliver(m)
	}
}

func (f *feed) lose(m *stream.Stored, how string) {
	s := f.n.s
	s.met.add(how)
	if s.trace != nil {
		s.traceAbout(f.n.name(), "misses %s", describeEntry(s.server.entry(m)))
	}
	s.faultState.disturb(s.now)
	if !f.missed { // otherwise it is part of the same gap
		f.n.s.check.catchUps.breakOf(f.n)
	}
	f.missed = true
	sent := f.sent
	s.after(time.Second, f.n.alive(func() {
		if f.sent == sent {
			s.met.add("trap: last entry lost")
		}
	}))
}

func (f *feed) deliver(m *stream.Stored) {
	s, n := f.n.s, f.n
	d := s.delay(s.plan.Net.Feed)
	if f.lags {
		d += s.upTo(s.plan.Net.Lag)
	}
	if f.extraDelay > 0 {
		d += s.upTo(f.extraDelay)
		n.link.heard()
		if most := s.plan.Feed.Buffer; most > 0 && f.buffered >= most {
			f.drop()
			return
		}
	}
	f.buffered++
	dropped := f.dropped
	e := s.server.entry(m)
	n.link.deliver(d, true, func(p *peer.Peer, now Instant) {
		if f.dropped != dropped {
			return
		}
		f.buffered--
		if s.trace != nil {
			s.traceAbout(n.name(), "is fed %s", describeEntry(e))
		}
		p.Fed(*e, now)
		n.noteFed(e)
	})
}

// drop drops the buffered entries, as the shell does when its peer is too far behind.
func (f *feed) drop() {
	s := f.n.s
	s.met.add("trap: buffer dropped")
	s.tracef(f.n.name(), "drops %d entries", f.buffered)
	s.faultState.disturb(s.now)
	f.dropped++
	f.buffered = 0
	f.n.reading.interrupt()
}

func (f *feed) disconnected() {
	f.dropped++
	f.buffered = 0
}
