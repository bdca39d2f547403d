package sim

import (
	"time"

	"github.com/kvslots/kvslots/kvslots/internal/entry"
	"github.com/kvslots/kvslots/kvslots/internal/peer"
)

const maxBuffered = 500

// link is a node's connection to a server. Writes arrive in the order in which they were
// sent. When the connection breaks, writes under way are lost, so that the stream gets a
// prefix of what was sent. Acknowledgements and entries of the feed come in the order in
// which the servers sent them: an acknowledgement overtakes no entry.
type link struct {
	n            *node
	up           bool
	server       int     // of the cluster
	connection   uint64  // counts connections
	lastArrival  Instant // the arrival of the last write, which no later one overtakes
	lastDelivery Instant // the same for what comes
	stalledUntil Instant // no write arrives before then
	buffering    bool    // writes are buffered while the connection is broken
	buffered     []peer.Write
	acksLost     int  // number of faults that lose all acknowledgements
	holding      bool // what comes is held
	held         []func()
	silence
}

func (l *link) send(w peer.Write) {
	s := l.n.s
	l.n.noteSent(&w)
	if s.chance(s.plan.Net.Full) && !s.ending {
		l.drop(&w, "trap: queue full")
		s.faultState.disturb(s.now)
		return
	}
	if !l.up {
		l.buffer(w)
		return
	}
	l.awaitSign()
	leaves := w.Key.Kind == entry.Ticket && w.Marker
	if (s.chance(s.plan.Net.LoseWrite) || leaves && s.chance(s.plan.Net.LoseLeave)) && !s.ending {
		l.drop(&w, "trap: write lost")
		s.faultState.disturb(s.now)
		return
	}
	at := max(s.now.Add(s.delay(s.plan.Net.Uplink)), l.lastArrival, l.stalledUntil)
	l.lastArrival = at
	number := l.connection
	s.server.noteUnderWay(&w, 1)
	s.at(at, func() {
		s.server.noteUnderWay(&w, -1)
		if l.connection == number {
			l.arrived(&w, number)
			return
		}
		l.drop(&w, "trap: write lost in a cut")
	})
}

func (l *link) buffer(w peer.Write) {
	switch {
	case !l.buffering:
		l.drop(&w, "trap: write lost in a cut")
	case len(l.buffered) >= maxBuffered:
		l.drop(&w, "trap: queue full")
	default:
		l.n.s.met.add("trap: write kept in a cut")
		l.buffered = append(l.buffered, w)
	}
}

func (l *link) drop(w *peer.Write, trap string) {
	l.n.s.met.add(trap)
	if l.n.s.trace != nil {
		l.n.s.traceAbout(l.n.name(), "sends %s in vain, %s", describeWrite(w), trap)
	}
}

func (l *link) arrived(w *peer.Write, number uint64) {
	if p := l.n.s.server.partition; p.cutsOff(l) {
		p.arrived(l, w, number)
		return
	}
	l.reached(w, number)
}

// reached handles a write that reaches the stream's leader. A deposed leader may answer it
// as well, before or after.
func (l *link) reached(w *peer.Write, number uint64) {
	s := l.n.s
	v := s.server
	refusal, refused := v.deposedAnswer(w)
	a, answered := l.publish(w)
	if s.trace != nil {
		s.traceAbout("stream", "%s writes %s: %s", l.n.name(), describeWrite(w), describeAck(a, answered))
	}
	if refused {
		s.met.add("trap: refused by a deposed leader")
		if a.Outcome == peer.Written && answered {
			s.met.add("trap: refused and stored")
		}
		if s.trace != nil {
			s.traceAbout("stream", "a deposed leader answers the same, %s: %s", describeWrite(w), describeAck(refusal, true))
		}
		if s.chance(0.3) {
			defer l.answer(w, number, refusal)
		} else {
			l.answer(w, number, refusal)
		}
	}
	if !answered || a.Outcome == peer.Written && a.Revision == v.handover.lastOnes && s.chance(0.8) {
		s.met.add("trap: no answer")
		return
	}
	l.answer(w, number, a)
}

func (l *link) answer(w *peer.Write, number uint64, a peer.Ack) {
	s, n := l.n.s, l.n
	id := w.ID
	late := !s.ending && s.chance(s.plan.Net.LateAck)
	switch {
	case l.connection != number:
		s.met.add("trap: ack lost in a cut")
	case l.acksLost > 0, !s.ending && s.chance(s.plan.Net.LoseAck):
		s.met.add("trap: ack lost")
		s.faultState.disturb(s.now)
	case late:
		s.met.add("trap: ack late")
		d := s.delay(s.plan.Net.Ack) + 500*time.Millisecond + s.upTo(7500*time.Millisecond)
		s.faultState.disturb(s.now.Add(d))
		generation := n.generation
		s.at(max(s.now.Add(d), l.lastDelivery), func() {
			if l.connection != number || n.generation != generation {
				s.met.add("trap: ack lost in a cut")
				return
			}
			n.input(func(p *peer.Peer, now Instant) { p.Acked(id, a, now) })
		})
	default:
		d := min(s.delay(s.plan.Net.Ack), maxAckDelay)
		l.deliver(d, a.Outcome == peer.Written, func(p *peer.Peer, now Instant) { p.Acked(id, a, now) })
	}
}

// maxAckDelay bounds the delay of an acknowledgement that is not late, since what follows
// on the connection waits for it.
const maxAckDelay = 1500 * time.Millisecond

// deliver passes an input to the peer that comes by the connection, after all that came
// before. sign reports whether it shows that the stream has a leader.
func (l *link) deliver(d time.Duration, sign bool, input func(*peer.Peer, Instant)) {
	s, n := l.n.s, l.n
	l.lastDelivery = max(l.lastDelivery, s.now.Add(d))
	connection, generation := l.connection, n.generation
	s.at(l.lastDelivery, func() {
		switch {
		case l.connection != connection || n.generation != generation:
			s.met.add("trap: delivery lost in a cut")
		case l.holding:
			l.held = append(l.held, func() { l.delivered(sign, input) })
		default:
			l.delivered(sign, input)
		}
	})
}

func (l *link) delivered(sign bool, input func(*peer.Peer, Instant)) {
	if sign {
		l.heard()
	}
	l.n.input(input)
}

func (l *link) hold() { l.holding = true }

func (l *link) release() {
	l.holding = false
	held := l.held
	l.held = nil
	for _, comes := range held {
		comes()
	}
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

func (l *link) cut(buffering bool) {
	l.up, l.buffering = false, buffering
	l.n.s.tracef(l.n.name(), "is disconnected")
	l.connection++
	l.holding, l.held, l.silence.since = false, nil, 0
	l.n.feed.disconnected()
	l.n.reading.disconnected()
}

// reconnect connects again, to any server, and sends the buffered writes.
func (l *link) reconnect() { l.connect(l.n.s.drawServer()) }

func (l *link) connect(server int) {
	if l.up || l.n.s.server.down {
		return
	}
	l.n.s.tracef(l.n.name(), "is connected again")
	l.up, l.server = true, server
	l.connection++
	l.lastArrival, l.lastDelivery, l.stalledUntil = 0, 0, 0
	kept := l.buffered
	l.buffered = nil
	for _, w := range kept {
		l.send(w)
	}
	n := l.n
	n.input(func(p *peer.Peer, now Instant) { p.Connected(now) })
	n.reading.reconnected()
}
