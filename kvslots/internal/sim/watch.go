package sim

import (
	"time"

	"github.com/kvslots/kvslots/kvslots/internal/peer"
	"github.com/kvslots/kvslots/kvslots/internal/sim/stream"
)

const (
	silenceTimeout = 2500 * time.Millisecond // a watch without heartbeats for that long is considered dead
	getBatch       = 1000                    // size of a batch of direct gets
)

// watch is a node's consumer of the stream. A node has one at a time.
type watch struct {
	n              *node
	number         uint64
	consumer       *stream.Consumer // nil before it is created and after it is lost
	lost           bool             // the peer was informed of the loss
	polling        bool
	silences       uint64  // counts silences; invalidates the timers of earlier ones
	silencePending bool    // heartbeats are missing, and a timer for that runs
	lastDelivery   Instant // the arrival time of the last delivery
	lags           bool    // deliveries are delayed by NetPlan.Lag
	missedDelivery bool    // a broken connection has lost deliveries
	whenConnected  func()  // creates the consumer at the next connection; nil if none is wanted

	extraDelay time.Duration // additional delay during a fault
}

// start discards the present watch and creates the one that the peer has asked for.
func (w *watch) start(number, from uint64) {
	w.number, w.consumer, w.lost, w.missedDelivery, w.whenConnected = number, nil, false, false, nil
	w.endSilence()
	w.afterRoundTrip(func() { w.create(number, from) })
}

// afterRoundTrip calls create when a request has reached the server and returned, unless the
// peer has asked for another watch by then.
func (w *watch) afterRoundTrip(create func()) {
	number, s := w.number, w.n.s
	s.after(s.delay(s.plan.Net.Uplink)+s.delay(s.plan.Net.Ack), w.n.alive(func() {
		if w.number == number && !w.lost {
			create()
		}
	}))
}

// create creates the consumer. If that is impossible, it reports the watch as lost.
func (w *watch) create(number, from uint64) {
	s := w.n.s
	if !w.n.link.up {
		w.whenConnected = func() { w.create(number, from) } // waits for the connection, as the shell does
		return
	}
	if !s.server.reachable() || s.server.watchFaults > 0 {
		s.met.add("trap: no watch to be had")
		w.fetch(number, from)
		refused := s.now.Add(s.upTo(5 * time.Millisecond))
		if s.chance(0.3) { // no refusal, but a timeout
			refused = s.now.Add(s.upTo(time.Second))
		}
		s.at(max(refused, w.lastDelivery), w.n.alive(func() { w.lose(number) }))
		return
	}
	info := s.server.info()
	if from == 0 {
		s.server.misreadAt = s.server.steppedAt
	}
	w.consumer = s.server.stream.Consumer(from)
	s.met.add("watch created")
	s.tracef(w.n.name(), "has watch %d from %d", number, from)
	w.deliver(number, func(p *peer.Peer, now Instant) { p.WatchStarted(number, info, now) })
	w.schedulePoll()
}

// fetch delivers a batch of direct gets, which may come from a replica that is behind.
func (w *watch) fetch(number, from uint64) {
	s := w.n.s
	if !w.n.link.up || s.server.down || !s.server.replicated() || !s.server.stream.Exists() {
		return
	}
	behind := uint64(0)
	if s.chance(0.3) {
		behind = uint64(s.rng.IntN(200))
	}
	for _, m := range s.server.stream.DirectGet(max(from, 1), getBatch, behind) {
		e := s.server.entry(&m)
		s.met.add("trap: fetched")
		w.deliver(number, func(p *peer.Peer, now Instant) { p.Fetched(number, *e, now) })
	}
}

// deliver passes an input to the peer, after all earlier deliveries.
func (w *watch) deliver(number uint64, input func(*peer.Peer, Instant)) {
	s, n := w.n.s, w.n
	w.lastDelivery = max(w.lastDelivery, s.now.Add(s.delay(s.plan.Net.Ack/2)))
	connection, generation := n.link.connection, n.generation
	s.at(w.lastDelivery, func() {
		if n.generation != generation || w.number != number || w.lost {
			return
		}
		if w.missedDelivery = w.missedDelivery || n.link.connection != connection; !w.missedDelivery {
			n.input(input)
		} else if n.link.up {
			w.lose(number) // there is a gap in the delivery's sequence numbers
		}
	})
}

// schedulePoll schedules a poll, unless one is scheduled.
func (w *watch) schedulePoll() {
	if w.polling || w.consumer == nil || w.lost || !w.n.link.up {
		return
	}
	w.polling = true
	s := w.n.s
	d := s.delay(s.plan.Net.Watch)
	if w.lags {
		d += s.upTo(s.plan.Net.Lag)
	}
	d += s.upTo(w.extraDelay)
	s.after(d, w.poll)
}

// poll delivers what the stream holds now, so that a late poll skips overwritten
// entries.
func (w *watch) poll() {
	w.polling = false
	s, n := w.n.s, w.n
	if w.consumer == nil || w.lost || !n.link.up || n.peer == nil || !s.server.reachable() {
		return
	}
	if w.consumer.Lost() {
		w.awaitSilence()
		return
	}
	number := w.number
	most := 64
	if w.extraDelay > 0 {
		most = 6
	}
	for range 1 + s.rng.IntN(most) {
		m, ok := w.consumer.Next()
		if !ok {
			return
		}
		e := s.server.entry(&m)
		w.deliver(number, func(p *peer.Peer, now Instant) {
			if s.trace != nil {
				s.tracef(n.name(), "applies %s", describeEntry(e))
			}
			if !p.Delivered(number, e.Revision, e.Key, e.Time, now) {
				p.Apply(number, *e, now)
			}
		})
	}
	w.schedulePoll()
}

// awaitSilence starts the timer after which missing heartbeats are noticed.
func (w *watch) awaitSilence() {
	if w.lost || w.silencePending || w.n.peer == nil {
		return
	}
	w.silencePending = true
	losing, number, s := w.silences, w.number, w.n.s
	s.after(silenceTimeout+s.upTo(500*time.Millisecond), w.n.alive(func() {
		if w.silences != losing {
			return
		}
		w.endSilence()
		if !w.works() {
			s.met.add("trap: silent watch")
			w.lose(number)
		}
	}))
}

// endSilence stops that timer, because the watch works again.
func (w *watch) endSilence() {
	w.silences++
	w.silencePending = false
}

// works reports whether the watch delivers, so that the peer receives heartbeats.
func (w *watch) works() bool {
	return w.consumer != nil && !w.consumer.Lost() && w.n.link.up && w.n.s.server.reachable() && !w.missedDelivery
}

// lose informs the peer that its watch is lost.
func (w *watch) lose(number uint64) {
	if w.number != number || w.lost {
		return
	}
	w.lost, w.consumer = true, nil
	w.n.s.tracef(w.n.name(), "loses watch %d", number)
	w.n.s.met.add("trap: watch lost")
	w.n.input(func(p *peer.Peer, now Instant) { p.WatchLost(number, now) })
}

// disconnected reports the watch as lost, as the shell does when its connection breaks:
// deliveries are missing, and the server may have lost the consumer.
func (w *watch) disconnected() {
	number := w.number
	w.n.s.after(w.n.s.upTo(5*time.Millisecond), w.n.alive(func() {
		if w.consumer != nil {
			w.lose(number)
		}
	}))
}

// reconnected creates the watch that the peer has asked for while it was disconnected.
func (w *watch) reconnected() {
	create := w.whenConnected
	if w.whenConnected = nil; create != nil {
		w.afterRoundTrip(create)
	}
}
