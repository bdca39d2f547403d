package peer

import (
	"time"

	"github.com/kvslots/kvslots/kvslots/internal/entry"
)

// own applies this peer's acknowledged writes of slots and tickets before the watch
// delivers them.
//
// If the view's revision is right below that of the write, no entry is missing between
// them, and the peer knows what it wrote. So it applies the write at once, and a borrow
// need not wait for the watch. The watch delivers the entry later, with its timestamp:
// until then the check's log holds the write.
type own struct {
	p         *Peer
	ahead     eventQueue[uint64] // writes that wait for the entries below
	delivered uint64             // the highest revision that was delivered
}

// acknowledged applies an acknowledged write, as soon as the view has reached the
// revision below it.
func (o *own) acknowledged(w *write, revision uint64) {
	if w.view != o.p.view { // its event may be of the queue that the earlier view had
		return
	}
	if below := revision - 1; below > o.p.view.Revision {
		w.applied.fire = func() { o.apply(w, revision) }
		o.ahead.start(&w.applied, below)
		return
	}
	o.apply(w, revision)
}

// applyReached applies the writes whose turn it is; each may be followed by another.
func (o *own) applyReached() {
	for reached := uint64(0); reached != o.p.view.Revision; {
		reached = o.p.view.Revision
		o.ahead.run(reached)
	}
}

// apply applies a write, unless the view has passed it.
func (o *own) apply(w *write, revision uint64) {
	if w.view != o.p.view || revision <= o.p.view.Revision || !o.mayApply() {
		return
	}
	e, known := w.msg.Entry(revision)
	if !known || o.p.watch.contradicts(&e) {
		return // wait for the delivery
	}
	before := o.p.holderBefore(&e)
	if o.p.view.ApplyOwn(&e, o.p.now) {
		o.p.counters.Early++
		o.p.noted(&e, w, before)
	}
}

func (o *own) mayApply() bool {
	return o.p.watch.mode == live && !o.p.closing && o.p.now.Sub(o.p.self.seen) <= unseenLimit &&
		o.p.view.Revision-o.delivered < recent // the check's log has what is not delivered yet
}

// Delivered records the delivery of an entry, and reports whether the peer applied the
// entry before. If it returns false, the caller must call Apply.
func (p *Peer) Delivered(number, revision uint64, key entry.Key, at time.Time, now Instant) bool {
	p.now = now
	if number != p.watch.number || p.watch.mode != live || p.watch.lagged(revision, at) {
		return false
	}
	e := entry.Entry{Key: key, Revision: revision, Time: at}
	return p.own.stamp(&e, func(own *entry.Entry) bool { return own.Key == key }) == stamped
}

// stamping is the result of stamp.
type stamping uint8

const (
	notOwn  stamping = iota // the entry was not applied before
	stamped                 // the entry was applied before, and has its timestamp now
	foreign                 // another write was acknowledged at this revision
)

// stamp adds the timestamp of a delivered entry to the view, if the entry was applied
// before. isSame reports whether an entry that this peer wrote is the delivered one.
func (o *own) stamp(e *entry.Entry, isSame func(own *entry.Entry) bool) stamping {
	s := o.p.watch.check.find(e.Revision)
	if s == nil || s.own == nil {
		o.delivered = max(o.delivered, e.Revision)
		return notOwn
	}
	own, _ := s.own.msg.Entry(e.Revision)
	if !isSame(&own) {
		return foreign
	}
	o.delivered = max(o.delivered, e.Revision)
	o.p.view.Stamped(&own, e.Time, s.own.begun, o.p.now)
	s.at, s.own = e.Time, nil
	return stamped
}

// sameAs returns a function that reports whether a written entry is the delivered one.
// After a lost tail, another peer's entry may have the same revision and key.
func sameAs(e *entry.Entry) func(own *entry.Entry) bool {
	return func(own *entry.Entry) bool {
		return own.Key == e.Key && own.Marker == e.Marker && own.Previous == e.Previous && own.Author == e.Author &&
			own.Slot == e.Slot && own.Ticket == e.Ticket
	}
}
