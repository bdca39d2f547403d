package rules

import "github.com/kvslots/kvslots/kvslots/internal/entry"

// places counts the places in line that are kept for request keys, with a caller or without. Beyond a
// limit the absent ones give way: a client that has gone must not have more of them than one that
// waits.
type places struct {
	MaxPlaces, MaxPlacesPerOrigin int // set before the first entry is applied; 0: no limit

	kept     int
	byOrigin tally
	absent   map[entry.Hash]*deadlineQueue // the absent ones of each origin, by when their callers left
}

func newPlaces() places {
	return places{byOrigin: tally{}, absent: map[entry.Hash]*deadlineQueue{}}
}

// count adds n places like that of a ticket, which counts while it is lined up and not dropped.
func (s *places) count(t *Ticket, n int) {
	if t.Kept() && !t.dropped {
		s.kept += n
		s.byOrigin.add(t.Value.Waiter, n)
	}
}

// noteAbsent notes since when no caller waits at a place; 0: one waits, or the place does not count.
func (s *places) noteAbsent(t *Ticket, since Instant) {
	q := s.absent[t.Value.Waiter]
	if since == 0 || t.dropped {
		if q != nil {
			if q.drop(&t.absence); q.Len() == 0 {
				delete(s.absent, t.Value.Waiter)
			}
		}
		return
	}
	if q == nil {
		q = new(deadlineQueue)
		s.absent[t.Value.Waiter] = q
	}
	t.absence.of = &t.record
	q.set(&t.absence, since)
}

// limitPlaces drops absent places of an origin, which has got another place, while a limit is
// exceeded: the oldest first. They are due from now on.
func (v *View) limitPlaces(origin entry.Hash, now Instant) {
	s := &v.places
	exceeds := func() bool {
		return s.MaxPlacesPerOrigin > 0 && s.byOrigin[origin] > s.MaxPlacesPerOrigin || s.MaxPlaces > 0 && s.kept > s.MaxPlaces
	}
	for v.Live && s.absent[origin] != nil && exceeds() {
		v.drop((*s.absent[origin])[0].of.parent.(*Ticket), now)
	}
}

func (v *View) drop(t *Ticket, now Instant) {
	v.places.count(t, -1)
	t.dropped = true
	v.places.noteAbsent(t, 0)
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
