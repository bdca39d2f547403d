package sim

import (
	"time"

	"github.com/kvslots/kvslots/kvslots/internal/peer"
	"github.com/kvslots/kvslots/kvslots/internal/sim/stream"
)

const (
	silence = 2500 * time.Millisecond // after which a watch is taken for dead
	batch   = 1000                    // of direct gets
)

// watch is a node's consumer of the stream. There is one at a time.
type watch struct {
	n        *node
	number   uint64
	consumer *stream.Consumer // nil: not created yet, or lost
	lost     bool             // the peer was told
	polling  bool
	beats    uint64  // counts the times at which it was certainly heard
	quiet    bool    // it is not heard, which will be noticed
	free     Instant // the arrival of the last delivery
	slow     bool    // this node's watch lags
	cut      bool    // deliveries were lost with a connection
}

// start is what the peer asks for: another watch.
func (w *watch) start(number, from uint64) {
	w.number, w.consumer, w.lost, w.cut = number, nil, false, false
	w.heard()
	s := w.n.s
	s.after(s.delay(s.plan.Net.Uplink)+s.delay(s.plan.Net.Ack), w.n.alive(func() {
		if w.number == number && !w.lost {
			w.create(number, from)
		}
	}))
}

// create creates the consumer, or fails to.
func (w *watch) create(number, from uint64) {
	s := w.n.s
	if !w.n.link.up || !s.server.reachable() || s.server.noWatch > 0 {
		s.met.add("trap: no watch to be had")
		w.fetch(number, from)
		refused := s.now.Add(s.upTo(5 * time.Millisecond))
		if s.chance(0.3) { // it times out instead
			refused = s.now.Add(s.upTo(time.Second))
		}
		s.at(max(refused, w.free), w.n.alive(func() { w.lose(number) }))
		return
	}
	info := s.server.info()
	if from == 0 {
		s.server.misread = s.server.stepped
	}
	w.consumer = s.server.stream.Consumer(from)
	s.met.add("watch created")
	s.note(w.n.name(), "has watch %d from %d", number, from)
	w.deliver(number, func(p *peer.Peer, now Instant) { p.WatchStarted(number, info, now) })
	w.wake()
}

// fetch gets directly what there is, from any replica.
func (w *watch) fetch(number, from uint64) {
	s := w.n.s
	if !w.n.link.up || s.server.down || !s.server.replicated() || !s.server.stream.Info().Exists {
		return
	}
	behind := uint64(0)
	if s.chance(0.3) {
		behind = uint64(s.rng.IntN(200))
	}
	for _, m := range s.server.stream.DirectGet(max(from, 1), batch, behind) {
		e := s.server.entry(m)
		s.met.add("trap: fetched")
		w.deliver(number, func(p *peer.Peer, now Instant) { p.Fetched(number, e, now) })
	}
}

// deliver hands something to the peer after what was delivered before.
func (w *watch) deliver(number uint64, input func(*peer.Peer, Instant)) {
	s, n := w.n.s, w.n
	w.free = max(w.free, s.now.Add(s.delay(s.plan.Net.Ack/2)))
	connection := n.link.number
	s.at(w.free, n.alive(func() {
		if w.number != number || w.lost {
			return
		}
		if w.cut = w.cut || n.link.number != connection; !w.cut {
			n.input(input)
		} else if n.link.up {
			w.lose(number) // this delivery has another number than it should
		}
	}))
}

// wake polls the stream soon: there may be something new.
func (w *watch) wake() {
	if w.polling || w.consumer == nil || w.lost || !w.n.link.up {
		return
	}
	w.polling = true
	s := w.n.s
	d := s.delay(s.plan.Net.Watch)
	if w.slow {
		d += s.upTo(s.plan.Net.Lag)
	}
	s.after(d, w.poll)
}

// poll delivers what stands at this moment.
func (w *watch) poll() {
	w.polling = false
	s, n := w.n.s, w.n
	if w.consumer == nil || w.lost || !n.link.up || n.peer == nil || !s.server.reachable() {
		return
	}
	if w.consumer.Lost() {
		w.silence()
		return
	}
	number := w.number
	for range 1 + s.rng.IntN(64) {
		m, ok := w.consumer.Next()
		if !ok {
			return
		}
		e := s.server.entry(m)
		w.deliver(number, func(p *peer.Peer, now Instant) {
			if s.trace != nil {
				s.note(n.name(), "applies %s", describeEntry(&e))
			}
			p.Apply(number, e, now)
		})
	}
	w.wake()
}

// silence begins when heartbeats are missing. It is noticed after some time, which
// is counted from the first one that is missing.
func (w *watch) silence() {
	if w.lost || w.quiet || w.n.peer == nil {
		return
	}
	w.quiet = true
	beats, number, s := w.beats, w.number, w.n.s
	s.after(silence+s.upTo(500*time.Millisecond), w.n.alive(func() {
		if w.beats != beats {
			return
		}
		if w.heard(); !w.works() {
			s.met.add("trap: silent watch")
			w.lose(number)
		}
	}))
}

// heard ends a silence before it is noticed.
func (w *watch) heard() {
	w.beats++
	w.quiet = false
}

// works reports whether the watch is heard.
func (w *watch) works() bool {
	return w.consumer != nil && !w.consumer.Lost() && w.n.link.up && w.n.s.server.reachable() && !w.cut
}

// lose tells the peer that its watch is broken.
func (w *watch) lose(number uint64) {
	if w.number != number || w.lost {
		return
	}
	w.lost, w.consumer = true, nil
	w.n.s.note(w.n.name(), "loses watch %d", number)
	w.n.s.met.add("trap: watch lost")
	w.n.input(func(p *peer.Peer, now Instant) { p.WatchLost(number, now) })
}

// reconnected looks at the watch: the server says at once whether it has the
// consumer still. What was under way when the connection broke is missing, which
// the numbers of the next deliveries show.
func (w *watch) reconnected() {
	s, number := w.n.s, w.number
	s.after(s.delay(s.plan.Net.Uplink)+s.delay(s.plan.Net.Ack), w.n.alive(func() {
		if w.number != number || w.lost || w.consumer == nil {
			return
		}
		if w.cut || w.consumer.Lost() {
			w.lose(number)
			return
		}
		w.heard()
		w.wake()
	}))
}
