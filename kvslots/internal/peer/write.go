package peer

import (
	"maps"
	"slices"
	"time"

	"github.com/kvslots/kvslots/kvslots/internal/entry"
	"github.com/kvslots/kvslots/kvslots/internal/rules"
)

const (
	// resendAfter is how long a write may go unanswered before the same message
	// is sent again. At most one of the two is written: both expect the same
	// revision.
	resendAfter = 500 * time.Millisecond

	// giveUpAfter is how long a write may go unanswered before its outcome
	// counts as unknown.
	giveUpAfter = 5 * time.Second

	inFlightPause = 5 * time.Millisecond  // after "some write is in flight"
	notNowPause   = 50 * time.Millisecond // after a refusal that says nothing of the key
	maxReleasing  = 256                   // purges under way that no caller waits for
)

// write is a message whose outcome is not known yet.
type write struct {
	p       *Peer
	ids     []uint64 // under which it was sent, but for those that were certainly not written
	first   [1]uint64
	msg     entry.Message
	view    *rules.View // the view from which it was decided
	floor   uint64      // the highest sequence that was applied or acknowledged when it was sent
	known   uint64      // the highest revision of the key that was known then
	skips   uint64      // how many times the view had skipped entries then
	held    bool        // the key had a value then, or a young marker
	begun   Instant
	timer   timer         // when it is sent again
	every   time.Duration // how long it may go unanswered before that
	pausing bool          // it is to be sent again, and not under way now
	over    bool
	shown   uint64     // the revision at which the view has shown it; of an authored one only
	done    func(Ack)  // called with the answer, or
	told    func(fate) // with what has become of it
	again   func()     // called when it is sent again; may be nil
}

// writes are those under way.
type writes struct {
	p         *Peer
	last      uint64
	pending   map[uint64]*write
	held      []*write // decided while the view is not live: sent when it is
	acked     uint64   // the highest revision that was acknowledged
	releasing int
	authored  map[uint64]*write // those of put, by their authors' numbers
	backlog   []release
}

// send sends a message, and again while it is not answered. done is called once:
// with Written, Conflict or Never, or with Unknown when that took too long.
//
// A Conflict may have been caused by an earlier copy of the same message. So what
// stands there has to be looked at, when the view has reached it.
func (p *Peer) send(m entry.Message, done func(Ack)) *write {
	w := &write{p: p, msg: m, view: p.view, begun: p.now, every: resendAfter, done: done}
	w.ids, w.timer.fire = w.first[:0], w.repeat
	stands, taken := p.view.Stands(m.Key)
	w.skips = p.counters.Skips
	w.floor, w.known = max(p.view.Revision, p.writes.acked), max(stands, m.Revision)
	w.held = taken || stands != 0 && !p.view.MarkerOld(m.Key, p.now)
	p.trackPurge(m)
	w.transmit()
	return w
}

// mayHaveLanded reports whether a copy of a write that was refused may have been
// written without the view's having shown it.
func (w *write) mayHaveLanded() bool {
	return len(w.ids) > 1 && (w.p.counters.Skips != w.skips || w.view != w.p.view)
}

// transmit sends a message once more. Nothing but the presence is written from a
// view that is not live: after a lost tail a revision may be another entry's, for
// which a compare-and-swap is no protection.
func (w *write) transmit() {
	if w.p.watch.mode != live && w.msg.Key != w.p.self.key() {
		w.pausing = true
		w.p.writes.held = append(w.p.writes.held, w)
		return
	}
	w.p.writes.last++
	id := w.p.writes.last
	w.ids = append(w.ids, id)
	w.p.writes.pending[id] = w
	w.p.counters.Writes++
	if len(w.ids) > 1 { // the others may have been written
		w.p.counters.Resent++
		if w.again != nil {
			w.again()
		}
	}
	w.pausing = false
	w.p.timers.start(&w.timer, w.p.now.Add(w.every))
	w.p.out.ready.Writes = append(w.p.out.ready.Writes, Write{ID: id, Message: w.msg})
}

// repeat sends a write once more, or gives it up: after too long, or when the view
// that it was decided from is no more.
func (w *write) repeat() {
	switch {
	case w.over:
	case w.view != w.p.view, w.p.now.Sub(w.begun) >= giveUpAfter:
		w.settle(Ack{Outcome: Unknown})
	default:
		w.transmit()
	}
}

// Connected notes that the connection is back: what is unanswered is sent again.
func (p *Peer) Connected(now Instant) {
	p.now = now
	p.writes.sendAgain()
	p.follow()
}

// sendAgain sends again what is unanswered, and what was held.
func (ws *writes) sendAgain() {
	held := ws.held
	ws.held = nil
	for _, id := range slices.Sorted(maps.Keys(ws.pending)) {
		if w := ws.pending[id]; !w.over && !w.pausing && w.ids[0] == id {
			w.repeat()
		}
	}
	for _, w := range held {
		w.repeat()
	}
}

// Acked notes the answer to a write, whenever it comes.
func (p *Peer) Acked(id uint64, a Ack, now Instant) {
	p.now = now
	w := p.writes.pending[id]
	if w == nil {
		return
	}
	if a.Outcome != Unknown {
		delete(p.writes.pending, id)
	}
	if a.Outcome == Written {
		p.writes.acked = max(p.writes.acked, a.Revision)
		w.view.Sent(a.Revision, w.begun)
	}
	w.examine(a)
	switch a.Outcome {
	case Unknown:
	case InFlight, NotNow: // this copy was certainly not written
		w.ids = without(w.ids, id)
		w.retry(a.Outcome)
	default:
		w.settle(a)
	}
	if a.Outcome == Written {
		p.own.acknowledged(w, a.Revision)
	}
	p.follow()
}

// retry sends a write again after a pause.
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

// settle ends a write.
func (w *write) settle(a Ack) {
	if w.over {
		return
	}
	w.over = true
	w.p.timers.stop(&w.timer)
	if a.Outcome == Unknown {
		w.p.after(time.Minute, w.forget) // a late answer may yet tell something of the stream
	} else {
		w.forget()
	}
	if a.Outcome == Conflict {
		w.p.counters.Conflicts++
	}
	w.p.untrackPurge(w.msg, a)
	if w.told != nil {
		w.follow(a)
	} else {
		w.done(a)
	}
}

func (w *write) forget() {
	for _, id := range w.ids {
		delete(w.p.writes.pending, id)
	}
}
