package peer

import (
	"maps"
	"slices"
	"time"

	"github.com/kvslots/kvslots/kvslots/internal/entry"
	"github.com/kvslots/kvslots/kvslots/internal/rules"
)

const (
	// resendAfter is how long a write may go unanswered before the peer sends the
	// same message again. At most one of the two is written: both expect the same
	// revision.
	resendAfter = 500 * time.Millisecond

	// giveUpAfter is how long a write may go unanswered before its outcome
	// counts as unknown.
	giveUpAfter = 5 * time.Second

	inFlightPause = 5 * time.Millisecond  // after "some write is in flight"
	notNowPause   = 50 * time.Millisecond // after NotNow
)

// write is a message whose outcome is not known yet.
type write struct {
	p        *Peer
	ids      []uint64 // of its copies, except those that were certainly not written
	first    [1]uint64
	msg      entry.Message
	view     *rules.View // the view that it was decided from
	queue    *writeQueue
	sent     bool             // a copy was sent: it has a place in its queue
	floor    uint64           // the highest sequence that was applied or acknowledged when it was sent
	known    uint64           // the highest revision of the key that was known then
	skips    uint64           // how many times the view had skipped entries then
	hadEntry bool             // the key had a value then, or a young marker
	begun    Instant          // when it was sent first
	timer    timer            // when it is sent again
	every    time.Duration    // how long it may go unanswered before that
	pausing  bool             // it waits to be sent or sent again
	over     bool             // done or settled was called
	applied  read             // see own
	shown    uint64           // the revision at which the view has shown it; of an authored one only
	done     func(Ack)        // called with the answer, or
	settled  func(resolution) // with what has become of it
	again    func()           // called when it is sent again; may be nil
}

// writes holds the pending writes.
type writes struct {
	p         *Peer
	last      uint64
	pending   map[uint64]*write
	queues    writeQueues
	acked     uint64            // the highest revision that was acknowledged
	refused   string            // why the latest write was refused, if not because of its key; "" otherwise
	releasing int               // releases without an outcome
	unsettled int               // writes without an outcome
	authored  map[uint64]*write // writes by Message.Author, for noted
}

// send sends a message, and again while it is not answered. It calls done once: with
// Written, Conflict or Never, or with Unknown after giveUpAfter, or if the server refuses
// another copy for good.
//
// An earlier copy of the same message may have caused a Conflict. So done has to look
// at the key when the view has reached the revision that the Conflict names.
func (ws *writes) send(m entry.Message, done func(Ack)) *write {
	return ws.sendIn(&ws.queues[m.Key.Kind], m, done)
}

func (ws *writes) sendIn(l *writeQueue, m entry.Message, done func(Ack)) *write {
	w := &write{p: ws.p, msg: m, view: ws.p.view, queue: l, begun: ws.p.now, every: resendAfter, done: done}
	w.ids, w.timer.fire = w.first[:0], w.repeat
	ws.unsettled++
	w.transmit()
	return w
}

// begin takes a place in the queue, and notes what is known before the first copy is sent.
func (w *write) begin() {
	p := w.p
	w.sent, w.begun = true, p.now
	w.queue.sent++
	latest, taken := p.view.Latest(w.msg.Key)
	w.skips = p.counters.Skips
	w.floor, w.known = max(p.view.Revision, p.writes.acked), max(latest, w.msg.Revision)
	w.hadEntry = taken || latest != 0 && !p.view.MarkerOld(w.msg.Key, p.now)
	w.trackPurge()
}

// mayHaveLanded reports whether an earlier copy of a refused write may have been
// written without the view having shown it.
func (w *write) mayHaveLanded() bool {
	return len(w.ids) > 1 && (w.p.counters.Skips != w.skips || w.view != w.p.view)
}

// transmit sends a copy of the message, or queues the write if it may not be sent now.
func (w *write) transmit() {
	if !w.maySend() {
		w.pausing = true
		w.p.timers.stop(&w.timer)
		w.queue.waiting = append(w.queue.waiting, w)
		return
	}
	if !w.sent {
		w.begin()
	}
	w.p.writes.last++
	id := w.p.writes.last
	w.ids = append(w.ids, id)
	w.p.writes.pending[id] = w
	w.p.counters.Writes++
	if len(w.ids) > 1 { // the earlier copies may have been written
		w.p.counters.Resent++
		if w.again != nil {
			w.again()
		}
	}
	w.pausing = false
	w.p.timers.start(&w.timer, w.p.now.Add(w.every))
	w.p.out.ready.Writes = append(w.p.out.ready.Writes, Write{ID: id, Message: w.msg})
}

// repeat sends a write again, or the first time after it has waited. It gives the write
// up after giveUpAfter, or if the view was built anew. If the key has changed while the
// write waited to be sent first, the server would refuse it, so repeat does not send it.
func (w *write) repeat() {
	switch latest, _ := w.p.view.Latest(w.msg.Key); {
	case w.over:
	case w.view != w.p.view, w.sent && w.p.now.Sub(w.begun) >= giveUpAfter:
		w.settle(Ack{Outcome: Unknown})
	case !w.sent && w.maySend() && w.msg.Expect == entry.ExpectRevision && latest > w.msg.Revision:
		w.settle(Ack{Outcome: Conflict, Revision: latest})
	default:
		w.transmit()
	}
}

// Connected records that the connection is back: the peer sends its unanswered writes
// again.
func (p *Peer) Connected(now Instant) {
	p.now = now
	p.writes.sendAgain()
	p.advance()
}

// sendAgain sends the unanswered writes again, and those that wait, as far as they may
// be sent.
func (ws *writes) sendAgain() {
	waiting := ws.queues.drain()
	for _, id := range slices.Sorted(maps.Keys(ws.pending)) {
		if w := ws.pending[id]; !w.over && !w.pausing && w.ids[0] == id {
			w.repeat()
		}
	}
	for _, w := range waiting {
		w.repeat()
	}
}

// Acked handles the answer to a write, however late.
func (p *Peer) Acked(id uint64, a Ack, now Instant) {
	p.now = now
	w := p.writes.pending[id]
	if w == nil {
		return
	}
	if a.Outcome != Unknown {
		delete(p.writes.pending, id)
		p.writes.refused = a.Reason
	}
	if a.Outcome == Written && w.view == p.view { // otherwise the stream may have lost it
		p.writes.acked = max(p.writes.acked, a.Revision)
		w.view.Sent(a.Revision, w.begun)
	}
	p.watch.decide(w.judgeAnswer(a), w.msg.Key)
	switch o := a.Outcome; {
	case o == Unknown:
	case o == InFlight, o == NotNow, o == Never && w.isRelease(): // this copy was certainly not written
		w.ids = without(w.ids, id)
		w.retry(o)
	case o == Never && len(w.ids) > 1: // an earlier copy may have been written
		w.settle(Ack{Outcome: Unknown})
	case o == Never: // no copy was written
		w.ids = nil
		w.settle(a)
	default:
		w.settle(a)
	}
	if a.Outcome == Written {
		p.own.acknowledged(w, a.Revision)
	}
	p.advance()
}

func (w *write) retry(o Outcome) {
	if w.over || w.pausing {
		return
	}
	w.pausing = true
	pause := notNowPause
	if o == InFlight {
		pause = inFlightPause
	}
	w.p.timers.start(&w.timer, w.p.now.Add(pause))
}

func (w *write) settle(a Ack) {
	if w.over {
		return
	}
	w.over = true
	if w.sent {
		w.queue.sent--
	}
	w.p.timers.stop(&w.timer)
	if a.Outcome == Unknown {
		w.p.after(time.Minute, w.forget) // a late answer may still contradict the view
	} else {
		w.forget()
	}
	w.p.wrote(w, a.Outcome)
	w.untrackPurge(a)
	if w.settled != nil {
		w.resolve(a)
	} else {
		w.done(a)
	}
}

func (w *write) forget() {
	for _, id := range w.ids {
		delete(w.p.writes.pending, id)
	}
}
