package sim

import (
	"time"

	"github.com/kvslots/kvslots/kvslots/internal/peer"
)

// maxBuffered is how many writes a disconnected client buffers.
const maxBuffered = 500

// link is a node's connection. Writes arrive in the order in which they were sent. When
// the connection breaks, writes under way are lost, so that the stream gets a prefix of
// what was sent.
type link struct {
	n            *node
	up           bool
	connection   uint64  // counts connections
	lastArrival  Instant // the arrival of the last write, which no later one overtakes
	stalledUntil Instant // no write arrives before then
	buffering    bool    // writes are buffered while the connection is broken
	buffered     []peer.Write
}

func (l *link) send(w peer.Write) {
	s := l.n.s
	if s.chance(s.plan.Net.Full) && !s.ending {
		s.met.add("trap: queue full")
		s.faultState.disturb(s.now)
		l.ackLocally(w.ID, peer.Ack{Outcome: peer.NotNow}, s.upTo(time.Millisecond))
		return
	}
	if !l.up {
		l.buffer(w)
		return
	}
	if s.chance(s.plan.Net.LoseWrite) && !s.ending {
		s.met.add("trap: write lost")
		s.faultState.disturb(s.now)
		return
	}
	at := max(s.now.Add(s.delay(s.plan.Net.Uplink)), l.lastArrival, l.stalledUntil)
	l.lastArrival = at
	number := l.connection
	s.at(at, func() {
		if l.connection == number {
			l.arrived(&w, number)
			return
		}
		s.met.add("trap: write lost in a cut")
	})
}

// buffer buffers or loses a write that is sent without a connection.
func (l *link) buffer(w peer.Write) {
	switch {
	case !l.buffering:
		l.n.s.met.add("trap: write lost in a cut")
	case len(l.buffered) >= maxBuffered:
		l.n.s.met.add("trap: queue full")
		l.ackLocally(w.ID, peer.Ack{Outcome: peer.NotNow}, 0)
	default:
		l.n.s.met.add("trap: write kept in a cut")
		l.buffered = append(l.buffered, w)
	}
}

// arrived handles a write that reaches the stream's leader. Its acknowledgement takes
// the same connection.
func (l *link) arrived(w *peer.Write, number uint64) {
	s := l.n.s
	a, answered := l.publish(w)
	if s.trace != nil {
		s.tracef("stream", "%s writes %s: %s", l.n.name(), describeWrite(w), describeAck(a, answered))
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
		s.faultState.disturb(s.now)
		return
	case s.chance(s.plan.Net.LateAck):
		s.met.add("trap: ack late")
		d += 500*time.Millisecond + s.upTo(7500*time.Millisecond)
		s.faultState.disturb(s.now.Add(d))
	}
	id, n := w.ID, l.n
	generation := n.generation
	s.after(d, func() {
		if l.connection != number || n.generation != generation {
			s.met.add("trap: ack lost in a cut")
			return
		}
		n.input(func(p *peer.Peer, now Instant) { p.Acked(id, a, now) })
	})
}

// publish delivers a write to the stream, unless the server refuses it, because it has no
// space for example. The answer may be one that the shell does not understand.
func (l *link) publish(w *peer.Write) (a peer.Ack, answered bool) {
	s := l.n.s
	if !s.ending && s.chance(s.plan.Net.Never) {
		s.met.add("trap: refused for good")
		s.faultState.disturb(s.now)
		return peer.Ack{Outcome: peer.Never, Reason: "no space"}, true
	}
	a, answered = s.server.publish(w)
	if answered && !s.ending && s.chance(s.plan.Net.Unknown) {
		s.met.add("trap: unclear answer")
		s.faultState.disturb(s.now)
		a = peer.Ack{Outcome: peer.Unknown}
	}
	return a, answered
}

// ackLocally acknowledges a write that the shell did not send.
func (l *link) ackLocally(id uint64, a peer.Ack, d time.Duration) {
	n := l.n
	n.s.after(d, n.alive(func() {
		n.input(func(p *peer.Peer, now Instant) { p.Acked(id, a, now) })
	}))
}

func (l *link) cut(buffering bool) {
	l.up, l.buffering = false, buffering
	l.n.s.tracef(l.n.name(), "is disconnected")
	l.connection++
	l.n.watch.disconnected()
}

// reconnect connects again, and sends the buffered writes.
func (l *link) reconnect() {
	if l.up || l.n.s.server.down {
		return
	}
	l.n.s.tracef(l.n.name(), "is connected again")
	l.up = true
	l.connection++
	l.lastArrival, l.stalledUntil = 0, 0
	kept := l.buffered
	l.buffered = nil
	for _, w := range kept {
		l.send(w)
	}
	n := l.n
	n.input(func(p *peer.Peer, now Instant) { p.Connected(now) })
	n.watch.reconnected()
}
