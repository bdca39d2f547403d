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
	losing   uint64  // counts silences
	silent   bool    // heartbeats are missing, which is about to be noticed
	free     Instant // the arrival of the last delivery
	slow     bool    // this node's watch lags
	cut      bool    // deliveries were lost with a connection
	waits    func()  // creates the watch when the connection is back; nil: that is not waited for

	late time.Duration // by how much it is late while a fault lasts
}

// start is what the peer asks for: another watch.
func (w *watch) start(number, from uint64) {
	w.number, w.consumer, w.lost, w.cut, w.waits = number, nil, false, false, nil
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
	if !w.n.link.up {
		w.waits = func() { w.create(number, from) } // for the connection, as the shell does
		return
	}
	if !s.server.reachable() || s.server.noWatch > 0 {
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
	if !w.n.link.up || s.server.down || !s.server.replicated() || !s.server.stream.Exists() {
		return
	}
	behind := uint64(0)
	if s.chance(0.3) {
		behind = uint64(s.rng.IntN(200))
	}
	for _, m := range s.server.stream.DirectGet(max(from, 1), batch, behind) {
		e := s.server.entry(&m)
		s.met.add("trap: fetched")
		w.deliver(number, func(p *peer.Peer, now Instant) { p.Fetched(number, *e, now) })
	}
}

// deliver hands something to the peer after what was delivered before.
func (w *watch) deliver(number uint64, input func(*peer.Peer, Instant)) {
	s, n := w.n.s, w.n
	w.free = max(w.free, s.now.Add(s.delay(s.plan.Net.Ack/2)))
	connection, life := n.link.number, n.life
	s.at(w.free, func() {
		if n.life != life || w.number != number || w.lost {
			return
		}
		if w.cut = w.cut || n.link.number != connection; !w.cut {
			n.input(input)
		} else if n.link.up {
			w.lose(number) // this delivery has another number than it should
		}
	})
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
	d += s.upTo(w.late)
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
	most := 64
	if w.late > 0 {
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
				s.note(n.name(), "applies %s", describeEntry(e))
			}
			p.Apply(number, *e, now)
		})
	}
	w.wake()
}

// silence is noticed after some time: heartbeats are missing.
func (w *watch) silence() {
	if w.lost || w.silent || w.n.peer == nil {
		return
	}
	w.silent = true
	losing, number, s := w.losing, w.number, w.n.s
	s.after(silence+s.upTo(500*time.Millisecond), w.n.alive(func() {
		if w.losing != losing {
			return
		}
		w.heard()
		if !w.works() {
			s.met.add("trap: silent watch")
			w.lose(number)
		}
	}))
}

// heard ends a silence.
func (w *watch) heard() {
	w.losing++
	w.silent = false
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

// disconnected takes the watch for lost, as the shell does when it learns that the
// connection is gone: what was under way is missing, and the server may have lost
// the consumer.
func (w *watch) disconnected() {
	number := w.number
	w.n.s.after(w.n.s.upTo(5*time.Millisecond), w.n.alive(func() {
		if w.consumer != nil {
			w.lose(number)
		}
	}))
}

// reconnected creates the watch that the peer has asked for meanwhile.
func (w *watch) reconnected() {
	create := w.waits
	if w.waits = nil; create == nil {
		return
	}
	number, s := w.number, w.n.s
	s.after(s.delay(s.plan.Net.Uplink)+s.delay(s.plan.Net.Ack), w.n.alive(func() {
		if w.number == number && !w.lost {
			create()
		}
	}))
}
