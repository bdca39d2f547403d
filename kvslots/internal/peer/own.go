package peer

import (
	"maps"
	"slices"
	"time"

	"github.com/kvslots/kvslots/kvslots/internal/entry"
)

// maxOwn is how many own writes may wait for their delivery. When there are more, the
// watch is behind.
const maxOwn = 4096

// own applies this peer's acknowledged writes of slots and tickets before the watch
// delivers them.
//
// If the view's revision is right below that of the write, no entry is missing between
// them, and the peer knows what it wrote. So it applies the write at once, and a borrow
// need not wait for the watch. The watch delivers the entry later, with its timestamp.
type own struct {
	p         *Peer
	ahead     map[uint64]*write // by revision: writes that wait for the entries below
	unstamped []ownEntry        // writes that were applied and not delivered yet, in order
}

// ownEntry is a write that was applied before it was delivered.
type ownEntry struct {
	revision uint64
	write    *write
}

// acknowledged records that a write was written, and applies it if possible.
func (o *own) acknowledged(w *write, revision uint64) {
	if kind := w.msg.Key.Kind; kind != entry.Slot && kind != entry.Ticket || w.view != o.p.view || revision <= o.p.view.Revision || len(o.ahead) >= maxOwn {
		return
	}
	put(&o.ahead, revision, w)
	o.apply()
}

// apply applies the writes whose revisions follow the view's.
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
		return false // wait for the delivery
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

// passed drops the writes that the view has reached since its revision was from.
func (o *own) passed(from uint64) {
	view := o.p.view.Revision
	if delete(o.ahead, view); view > from+1 {
		maps.DeleteFunc(o.ahead, func(revision uint64, _ *write) bool { return revision < view })
	}
}

// awaits reports whether the entry at a revision may have been applied before its
// delivery, which is still to come.
func (o *own) awaits(revision uint64) bool {
	return len(o.unstamped) > 0 && revision >= o.unstamped[0].revision
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

// stamp adds the timestamp to an entry that was applied before its delivery. is reports
// whether the delivered entry is the one that was written.
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

// sameAs returns a function that reports whether a written entry is the delivered one.
// After a lost tail, another peer's entry may have the same revision and key.
func sameAs(e *entry.Entry) func(own *entry.Entry) bool {
	return func(own *entry.Entry) bool {
		return own.Key == e.Key && own.Marker == e.Marker && own.Previous == e.Previous && own.Author == e.Author &&
			own.Slot == e.Slot && own.Wait == e.Wait
	}
}
