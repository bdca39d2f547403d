package rules

import (
	"time"

	"github.com/kvslots/kvslots/kvslots/internal/entry"
)

// record is how one key of the bucket stands in the view.
type record struct {
	Revision uint64 // of the key's last entry, marker or not; 0 when the key is absent
	Taken    bool   // the key has a value
	life     life
	due      due // when the key is to be purged, or its marker written again
	mark     due // when its marker has gone
}

// Expiring reports whether the key is so close to its physical end that nothing
// but a purge may be written to it: the server's marker would erase what is written
// at that moment.
func (r *record) Expiring(now Instant) bool { return now >= r.life.present-Instant(expiryNear) }

// record is that of a key, or nil where nothing is known of it.
func (w *World) record(key entry.Key) *record {
	if key.Kind == entry.Session {
		if s := w.byID[key.Session]; s != nil {
			return &s.record
		}
		return nil
	}
	p := w.pools[key.Pool]
	if p == nil {
		return nil
	}
	switch key.Kind {
	case entry.Config:
		return &p.cfg
	case entry.Slot:
		if s := p.Slot(key.N); s != nil {
			return &s.record
		}
	case entry.Ticket:
		if t := p.line.byKey[key]; t != nil {
			return &t.record
		}
	}
	return nil
}

// Stands is the revision at which a key stands, and whether it has a value. A
// marker that was forgotten stands at 0, as does a barrier.
func (w *World) Stands(key entry.Key) (revision uint64, taken bool) {
	if r := w.record(key); r != nil {
		return r.Revision, r.Taken
	}
	return 0, false
}

// Absent notes what the server said: that a key is absent which the view holds for
// free.
func (w *World) Absent(key entry.Key) {
	if r := w.record(key); r != nil && !r.Taken && r.mark.index != 0 {
		w.forget(&r.mark)
	}
}

// MarkerOld reports whether the marker of a free key may have gone from the
// bucket.
func (w *World) MarkerOld(key entry.Key, now Instant) bool {
	r := w.record(key)
	return r == nil || now >= r.life.present-Instant(expiryLate)
}

// Expiring reports whether a key has a value and is so close to its physical end that
// nothing but a purge may be written to it.
func (w *World) Expiring(key entry.Key, now Instant) bool {
	r := w.record(key)
	return r != nil && r.Taken && r.Expiring(now)
}

// note brings a key's record up to its next entry. A free key is forgotten when its
// marker has gone; a marker that is too short is written again soon.
func (d *deadlines) note(r *record, e *entry.Entry, now Instant, age time.Duration) {
	r.Revision, r.Taken = e.Revision, !e.Marker
	r.life.extend(e, now, age)
	if !e.Marker {
		d.marks.drop(&r.mark)
		return
	}
	d.marks.set(&r.mark, r.life.present.Add(expiryLate))
	if r.life.short(e) {
		d.ends.set(&r.due, now.Add(garbageTime))
	} else {
		d.ends.drop(&r.due)
	}
}
