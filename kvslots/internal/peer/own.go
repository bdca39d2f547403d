package peer

import (
	"maps"
	"slices"
	"time"

	"github.com/kvslots/kvslots/kvslots/internal/entry"
)

// maxOwn bounds the own writes that the watch has yet to deliver: beyond it, the watch
// is behind.
const maxOwn = 4096

// own are this peer's writes of slots and tickets that were acknowledged.
//
// When the view stands right below the revision of such a write, nothing is missing in
// between, and what was written is known. So it is applied at once, and a borrow does
// not wait for the watch. The watch delivers it a little later, with its timestamp.
type own struct {
	p         *Peer
	ahead     map[uint64]*write // by revision: those for which the view lacks something below
	unstamped []ownEntry        // those that were applied and not delivered yet, in their order
}

// ownEntry is a write that was applied before it was delivered.
type ownEntry struct {
	revision uint64
	write    *write
}

// acknowledged notes that a write was written, and applies what can be applied.
func (o *own) acknowledged(w *write, revision uint64) {
	if kind := w.msg.Key.Kind; kind != entry.Slot && kind != entry.Ticket || w.view != o.p.view || revision <= o.p.view.Revision || len(o.ahead) >= maxOwn {
		return
	}
	put(&o.ahead, revision, w)
	o.apply()
}

// apply applies the writes that follow on the view.
func (o *own) apply() {
	for len(o.ahead) > 0 && o.mayApply() {
		revision := o.p.view.Revision + 1
		w := o.ahead[revision]
		if w == nil || !o.applyAt(revision, w) {
			return
		}
		delete(o.ahead, revision)
	}
}

func (o *own) mayApply() bool {
	return o.p.watch.mode == live && !o.p.closing && o.p.now.Sub(o.p.self.seen) <= unseenLimit && len(o.unstamped) < maxOwn
}

func (o *own) applyAt(revision uint64, w *write) bool {
	e, known := w.msg.Entry(revision)
	if !known || o.p.watch.contradicts(&e) {
		return false // the delivery decides
	}
	before := o.p.holderBefore(&e)
	if !o.p.view.ApplyOwn(&e, o.p.now) {
		return false
	}
	o.p.counters.Early++
	o.unstamped = append(o.unstamped, ownEntry{revision, w})
	o.p.noted(&e, before)
	return true
}

// passed forgets the writes that the view has passed, which stood at from before.
func (o *own) passed(from uint64) {
	view := o.p.view.Revision
	if delete(o.ahead, view); view > from+1 {
		maps.DeleteFunc(o.ahead, func(revision uint64, _ *write) bool { return revision < view })
	}
}

// awaits reports whether an entry was not delivered before, although the view is above
// it.
func (o *own) awaits(revision uint64) bool {
	return len(o.unstamped) > 0 && revision >= o.unstamped[0].revision
}

// Delivered notes that a watch delivers an entry, and reports whether that was applied
// before: then it need not be handed to Apply.
func (p *Peer) Delivered(number, revision uint64, key entry.Key, at time.Time, now Instant) bool {
	p.now = now
	if number != p.watch.number || p.watch.mode != live || p.watch.lagged(revision, at) {
		return false
	}
	e := entry.Entry{Key: key, Revision: revision, Time: at}
	return p.own.stamp(&e, func(own *entry.Entry) bool { return own.Key == key }) == stamped
}

// stamping is what comes of a delivery.
type stamping uint8

const (
	notOwn  stamping = iota // it is none that was applied before
	stamped                 // it was applied before; now it has its timestamp
	foreign                 // an own write was acknowledged at its revision, which this is not
)

// stamp gives an entry that was applied before it was delivered its timestamp. is
// reports whether the delivery is what was written.
func (o *own) stamp(e *entry.Entry, is func(own *entry.Entry) bool) stamping {
	i := 0
	for i < len(o.unstamped) && o.unstamped[i].revision < e.Revision { // overwritten before the watch came to it
		i++
	}
	result := notOwn
	if i < len(o.unstamped) && o.unstamped[i].revision == e.Revision {
		w := o.unstamped[i].write
		own, _ := w.msg.Entry(e.Revision)
		if result = foreign; is(&own) {
			result = stamped
			i++
			o.p.view.Stamped(&own, e.Time, w.begun, o.p.now)
			o.p.watch.check.stamp(e.Revision, e.Time)
		}
	}
	o.unstamped = slices.Delete(o.unstamped, 0, i)
	return result
}

// sameAs compares what this peer has written with an entry that was delivered. After
// a lost tail another peer's may stand at the same revision, under the same key.
func sameAs(e *entry.Entry) func(own *entry.Entry) bool {
	return func(own *entry.Entry) bool {
		return own.Key == e.Key && own.Marker == e.Marker && own.Previous == e.Previous && own.Author == e.Author &&
			own.Slot == e.Slot && own.Wait == e.Wait
	}
}
