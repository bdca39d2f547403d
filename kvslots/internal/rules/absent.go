package rules

import "github.com/kvslots/kvslots/kvslots/internal/entry"

// countPlace adds n places like that of a ticket, which counts while it is lined up and not dropped.
func (v *View) countPlace(t *Ticket, n int) {
	if t.Kept() && !t.dropped {
		v.places.count(t.Value.Waiter, n)
	}
}

// noteAbsent notes since when no caller waits at a ticket's place; 0: one waits.
func (v *View) noteAbsent(t *Ticket, since Instant) {
	if t.dropped {
		since = 0
	}
	t.absence.of = &t.record
	v.places.noteAbsent(t.Value.Waiter, &t.absence, since)
}

// limitPlaces drops absent places of an origin, which has got another place, while a limit is
// exceeded: the oldest first. They are due from now on.
func (v *View) limitPlaces(origin entry.Hash, now Instant) {
	for v.Live {
		r := v.places.oldestAbove(origin)
		if r == nil {
			return
		}
		v.drop(r.parent.(*Ticket), now)
	}
}

func (v *View) drop(t *Ticket, now Instant) {
	v.countPlace(t, -1)
	t.dropped = true
	v.noteAbsent(t, 0)
	v.ends.set(&t.due, now)
}

// DropPlace drops the oldest absent place of an origin in a pool, to make room for another caller of
// it, and reports whether there is one, or one that was dropped and is still to be purged.
func (v *View) DropPlace(p *Pool, origin entry.Hash, now Instant) bool {
	var oldest *Ticket
	for _, t := range p.line.tickets {
		if !t.Stands() || !t.Absent() || t.Value.Waiter != origin || origin.IsZero() {
			continue
		}
		if t.dropped {
			return true
		}
		if oldest == nil || t.left < oldest.left {
			oldest = t
		}
	}
	if oldest != nil {
		v.drop(oldest, now)
	}
	return oldest != nil
}
