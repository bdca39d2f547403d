package sim

import (
	"time"

	"github.com/kvslots/kvslots/kvslots/internal/peer"
)

// maxBuffered is how many writes a connection that is cut keeps for later.
const maxBuffered = 500

// link is a node's connection. Writes arrive in the order in which they were
// sent. What is under way when the connection is cut never arrives: of what was
// sent, the stream gets a prefix.
type link struct {
	n        *node
	up       bool
	number   uint64  // of the connection
	free     Instant // the arrival of the last write, which the next cannot overtake
	stalled  Instant // no write arrives before
	keeps    bool    // what is sent while the connection is cut is kept
	buffered []peer.Write
}

// send takes one write from the peer.
func (l *link) send(w peer.Write) {
	s := l.n.s
	if s.chance(s.plan.Net.Full) && !s.ending {
		s.met.add("trap: queue full")
		s.calm.pulse(s.now)
		l.answer(w.ID, peer.Ack{Outcome: peer.NotNow}, s.upTo(time.Millisecond))
		return
	}
	if !l.up {
		l.hold(w)
		return
	}
	if s.chance(s.plan.Net.LoseWrite) && !s.ending {
		s.met.add("trap: write lost")
		s.calm.pulse(s.now)
		return
	}
	at := max(s.now.Add(s.delay(s.plan.Net.Uplink)), l.free, l.stalled)
	l.free = at
	number := l.number
	s.at(at, func() {
		if l.number == number {
			l.arrived(&w, number)
			return
		}
		s.met.add("trap: write lost in a cut")
	})
}

// hold keeps, or loses, a write that is sent while there is no connection.
func (l *link) hold(w peer.Write) {
	switch {
	case !l.keeps:
		l.n.s.met.add("trap: write lost in a cut")
	case len(l.buffered) >= maxBuffered:
		l.n.s.met.add("trap: queue full")
		l.answer(w.ID, peer.Ack{Outcome: peer.NotNow}, 0)
	default:
		l.n.s.met.add("trap: write kept in a cut")
		l.buffered = append(l.buffered, w)
	}
}

// arrived is when a write reaches the stream's leader. Its acknowledgement goes
// back over the same connection.
func (l *link) arrived(w *peer.Write, number uint64) {
	s := l.n.s
	a, answered := s.server.publish(w)
	if s.trace != nil {
		s.note("stream", "%s writes %s: %s", l.n.name(), describeWrite(w), describeAck(a, answered))
	}
	if !answered {
		s.met.add("trap: no answer")
		return
	}
	d := s.delay(s.plan.Net.Ack)
	switch {
	case s.ending:
	case s.chance(s.plan.Net.LoseAck):
		s.met.add("trap: ack lost")
		s.calm.pulse(s.now)
		return
	case s.chance(s.plan.Net.LateAck):
		s.met.add("trap: ack late")
		d += 500*time.Millisecond + s.upTo(7500*time.Millisecond)
		s.calm.pulse(s.now.Add(d))
	}
	id, n := w.ID, l.n
	life := n.life
	s.after(d, func() {
		if l.number != number || n.life != life {
			s.met.add("trap: ack lost in a cut")
			return
		}
		n.input(func(p *peer.Peer, now Instant) { p.Acked(id, a, now) })
	})
}

// answer is an answer of the shell's own.
func (l *link) answer(id uint64, a peer.Ack, d time.Duration) {
	n := l.n
	life := n.life
	n.s.after(d, func() {
		if n.life == life {
			n.input(func(p *peer.Peer, now Instant) { p.Acked(id, a, now) })
		}
	})
}

// cut breaks the connection.
func (l *link) cut(keeps bool) {
	l.up, l.keeps = false, keeps
	l.n.s.note(l.n.name(), "is cut off")
	l.number++
	l.n.watch.disconnected()
}

// join connects again.
func (l *link) join() {
	if l.up || l.n.s.server.down {
		return
	}
	l.n.s.note(l.n.name(), "is connected again")
	l.up = true
	l.number++
	l.free, l.stalled = 0, 0
	kept := l.buffered
	l.buffered = nil
	for _, w := range kept {
		l.send(w)
	}
	n := l.n
	n.input(func(p *peer.Peer, now Instant) { p.Connected(now) })
	n.watch.reconnected()
}
