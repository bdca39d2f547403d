package sim

import (
	"time"

	"github.com/kvslots/kvslots/kvslots/internal/peer"
	"github.com/kvslots/kvslots/kvslots/internal/sim/stream"
)

const (
	silenceTimeout = 2500 * time.Millisecond // a reading without heartbeats for that long is considered lost
)

// reading is a node's consumer of the stream, which delivers what the stream holds. A node has
// one at a time. The shell reads short catch-ups by a fetch from the stream's leader, or from a
// deposed one and then from the leader: that is what a consumer delivers of a replica that is
// behind, and then not any more.
type reading struct {
	n              *node
	number         uint64
	consumer       *stream.Consumer // nil before it is created and after it is lost
	lost           bool             // the peer was informed of the loss
	joined         bool             // the reading is over
	polling        bool
	silences       uint64  // counts silences; invalidates the timers of earlier ones
	silencePending bool    // heartbeats are missing, and a timer for that runs
	lastDelivery   Instant // the arrival time of the last delivery
	missedDelivery bool    // a broken connection has lost deliveries
	whenConnected  func()  // creates the consumer at the next connection; nil if none is wanted

	extraDelay   time.Duration // additional delay while the peer is slow
	createdLater time.Duration // than the stream was created: see Simulation.rebuildView
	rebuilt      Instant       // when that was last changed
}

// start discards the present reading and creates the one that the peer has asked for.
func (r *reading) start(number, from uint64) {
	r.number, r.consumer, r.lost, r.joined, r.missedDelivery, r.whenConnected = number, nil, false, false, false, nil
	r.endSilence()
	r.afterRoundTrip(func() { r.create(number, from) })
}

// afterRoundTrip calls create when a request has reached the server and returned, unless the
// peer has asked for another reading by then.
func (r *reading) afterRoundTrip(create func()) {
	number, s := r.number, r.n.s
	s.after(s.delay(s.plan.Net.Uplink)+s.delay(s.plan.Net.Ack), r.n.alive(func() {
		if r.number == number && !r.lost {
			create()
		}
	}))
}

// create creates the consumer. If that is impossible, it reports the reading as lost.
func (r *reading) create(number, from uint64) {
	s := r.n.s
	if !r.n.link.up {
		r.whenConnected = func() { r.create(number, from) } // waits for the connection, as the shell does
		return
	}
	if !s.server.reachableBy(r.n.link) || s.server.readingFaults > 0 {
		s.met.add("trap: no reading to be had")
		refused := s.now.Add(s.upTo(5 * time.Millisecond))
		if s.chance(0.3) { // no refusal, but a timeout
			refused = s.now.Add(s.upTo(time.Second))
		}
		s.at(max(refused, r.lastDelivery), r.n.alive(func() { r.lose(number) }))
		return
	}
	info := s.server.info()
	info.Created = info.Created.Add(r.createdLater)
	if from == 0 {
		r.n.beginLoad()
	}
	r.consumer = s.server.stream.Consumer(from)
	if s.server.replicated() && !s.ending && s.chance(s.plan.Feed.Behind) {
		r.fallBehind(&info)
	}
	s.tracef(r.n.name(), "has reading %d from %d", number, from)
	r.deliver(number, func(p *peer.Peer, now Instant) { p.ReadingStarted(number, info, now) })
	r.schedulePoll()
}

// fallBehind lets a replica deliver what it has: it is behind, or it is a deposed leader,
// whose consumers end when it learns that.
func (r *reading) fallBehind(info *peer.StreamInfo) {
	s := r.n.s
	c := r.consumer
	info.Last -= min(info.Last, 1+uint64(s.rng.IntN(40)))
	c.Behind(info.Last)
	deposed := s.chance(0.3)
	d := between(s.rng, 50*time.Millisecond, 4*time.Second)
	s.met.add("trap: reading from a replica that is behind")
	s.faultState.disturb(s.now.Add(d + silenceTimeout))
	s.after(d, r.n.alive(func() {
		switch {
		case r.consumer != c:
		case deposed:
			s.met.add("trap: reading from a deposed leader")
			r.vanish()
		default:
			c.CatchUp()
			r.schedulePoll()
		}
	}))
}

func (r *reading) vanish() {
	r.missedDelivery, r.consumer = true, nil
	r.awaitSilence()
}

func (r *reading) join(number uint64) {
	if r.number == number {
		r.consumer, r.joined = nil, true
		r.endSilence()
	}
}

// deliver passes an input to the peer, after all earlier deliveries.
func (r *reading) deliver(number uint64, input func(*peer.Peer, Instant)) {
	s, n := r.n.s, r.n
	r.lastDelivery = max(r.lastDelivery, s.now.Add(s.delay(s.plan.Net.Ack/2)))
	connection, generation := n.link.connection, n.generation
	s.at(r.lastDelivery, func() {
		if n.generation != generation || r.number != number || r.lost {
			return
		}
		if r.missedDelivery = r.missedDelivery || n.link.connection != connection; !r.missedDelivery {
			n.input(input)
		} else if n.link.up {
			r.lose(number) // there is a gap in the delivery's sequence numbers
		}
	})
}

func (r *reading) schedulePoll() {
	if r.polling || r.consumer == nil || r.lost || !r.n.link.up {
		return
	}
	r.polling = true
	s := r.n.s
	d := s.delay(s.plan.Net.Feed)
	if r.n.feed.lags {
		d += s.upTo(s.plan.Net.Lag)
	}
	d += s.upTo(r.extraDelay)
	s.after(d, r.poll)
}

// poll delivers what the stream holds now, so that a late poll skips overwritten
// entries.
func (r *reading) poll() {
	r.polling = false
	s, n := r.n.s, r.n
	if r.consumer == nil || r.lost || !n.link.up || n.peer == nil || !s.server.reachableBy(n.link) {
		return
	}
	if r.consumer.Lost() {
		r.awaitSilence()
		return
	}
	number := r.number
	most := 64
	if r.extraDelay > 0 {
		most = 6
	}
	for range 1 + s.rng.IntN(most) {
		m, ok := r.consumer.Next()
		if !ok {
			return
		}
		e := s.server.entry(&m)
		r.deliver(number, func(p *peer.Peer, now Instant) {
			if s.trace != nil {
				s.traceAbout(n.name(), "reads %s", describeEntry(e))
			}
			p.Read(number, *e, now)
		})
	}
	r.schedulePoll()
}

// awaitSilence starts the timer after which missing heartbeats are noticed.
func (r *reading) awaitSilence() {
	if r.lost || r.joined || r.silencePending || r.n.peer == nil {
		return
	}
	r.silencePending = true
	losing, number, s := r.silences, r.number, r.n.s
	s.after(silenceTimeout+s.upTo(500*time.Millisecond), r.n.alive(func() {
		if r.silences != losing {
			return
		}
		r.endSilence()
		if !r.works() {
			s.met.add("trap: silent reading")
			r.lose(number)
		}
	}))
}

// endSilence stops that timer, because the reading works again.
func (r *reading) endSilence() {
	r.silences++
	r.silencePending = false
}

// works reports whether the reading delivers, so that the peer receives heartbeats.
func (r *reading) works() bool {
	return r.consumer != nil && !r.consumer.Lost() && r.n.link.up && r.n.s.server.reachableBy(r.n.link) && !r.missedDelivery
}

// lose informs the peer that its reading is lost, or that entries of the feed are.
func (r *reading) lose(number uint64) {
	if r.number != number || r.lost {
		return
	}
	r.lost, r.consumer = true, nil
	r.n.s.tracef(r.n.name(), "loses reading %d", number)
	if r.joined {
		r.n.s.met.add("trap: feed lost")
	} else {
		r.n.s.met.add("trap: reading lost")
	}
	r.n.s.check.catchUps.breakOf(r.n)
	r.n.input(func(p *peer.Peer, now Instant) { p.ReadingLost(number, now) })
}

// disconnected reports the reading as lost, as the shell does when its connection breaks:
// deliveries are missing, and the server may have lost the consumer.
func (r *reading) disconnected() {
	number := r.number
	r.n.s.after(r.n.s.upTo(5*time.Millisecond), r.n.alive(func() {
		if r.number == number {
			r.interrupt()
		}
	}))
}

// interrupt informs the peer that entries are missing, unless its reading is still to begin.
func (r *reading) interrupt() {
	if r.consumer != nil || r.joined {
		r.lose(r.number)
	}
}

// reconnected creates the reading that the peer has asked for while it was disconnected.
func (r *reading) reconnected() {
	create := r.whenConnected
	if r.whenConnected = nil; create != nil {
		r.afterRoundTrip(create)
	}
}
