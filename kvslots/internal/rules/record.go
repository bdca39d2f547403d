package rules

import (
	"time"

	"github.com/kvslots/kvslots/kvslots/internal/entry"
)

// record is what the view knows of one key of the bucket.
type record struct {
	Revision uint64 // of the key's last entry, marker or not; 0 when the key is absent
	Taken    bool   // the key has a value
	life     life
	due      deadline // when the key is to be purged, or its marker written again
	mark     deadline // when its marker has certainly expired
	parent   any      // the *Slot, *Ticket, *Session, *Pool or *endedPool that contains the record
}

func (r *record) init(parent any) { r.parent, r.due.of, r.mark.of = parent, r, r }

// Expiring reports whether the server is about to expire the key, so that a peer may
// only purge it: the server's marker would erase a value that is written at that moment.
func (r *record) Expiring(now Instant) bool { return now >= r.life.present-Instant(expiryNear) }

// record returns the record of a key, or nil if the view has none.
func (v *View) record(key entry.Key) *record {
	if key.Kind == entry.Session {
		if s := v.byID[key.Session]; s != nil {
			return &s.record
		}
		return nil
	}
	p := v.pools[key.Pool]
	if p == nil {
		if ended := v.ended[key.Pool]; ended != nil && key.Kind == entry.Config {
			return &ended.cfg
		}
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

// Latest returns the revision of a key's last entry, and whether that is a value. The
// revision is 0 for a forgotten marker and for a barrier.
func (v *View) Latest(key entry.Key) (revision uint64, taken bool) {
	if r := v.record(key); r != nil {
		return r.Revision, r.Taken
	}
	return 0, false
}

// MarkerOld reports whether the marker of a free key may have expired in the stream.
func (v *View) MarkerOld(key entry.Key, now Instant) bool {
	r := v.record(key)
	return r == nil || now >= r.life.present-Instant(expiryLate)
}

// Expiring reports whether a key has a value that the server is about to expire: see
// record.Expiring.
func (v *View) Expiring(key entry.Key, now Instant) bool {
	r := v.record(key)
	return r != nil && r.Taken && r.Expiring(now)
}

// note updates a key's record with its next entry, and sets the deadlines of a free key:
// it is forgotten when its marker has expired, and a short marker is soon written again.
func (d *deadlines) note(r *record, e *entry.Entry, now Instant, age time.Duration) {
	r.Revision, r.Taken = e.Revision, !e.Marker
	r.life.extend(e, now, age)
	if !e.Marker {
		d.marks.drop(&r.mark)
		return
	}
	// The stream has the marker now, whatever its age by the leader's clock.
	d.marks.set(&r.mark, max(r.life.present, now).Add(expiryLate))
	if r.life.short(e) {
		d.ends.set(&r.due, now.Add(garbageTime))
	} else {
		d.ends.drop(&r.due)
	}
}
