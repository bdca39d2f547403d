package rules

import (
	"time"

	"github.com/kvslots/kvslots/kvslots/internal/entry"
)

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
