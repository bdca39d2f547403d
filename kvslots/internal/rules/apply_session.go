package rules

import (
	"time"

	"github.com/kvslots/kvslots/kvslots/internal/entry"
)

func (v *View) applySession(e *entry.Entry, now Instant, age time.Duration) {
	s := v.makeSession(e.Key.Session)
	was := s.Taken
	is := !e.Marker && e.Corrupt == nil
	changed := was != is || s.Value.Kind != e.Session.Kind || s.Value.Origin != e.Session.Origin
	if changed {
		v.countSession(s, -1)
	}
	v.note(&s.record, e, now, age)
	s.Taken, s.Value = is, e.Session
	if changed {
		v.countSession(s, 1)
	}
	switch {
	case s.Taken:
		v.uncountEnded(&s.endedKeys)
		s.origin = e.Session.Origin
	case e.Marker:
		v.countEnded(&s.endedKeys, e.Origin, 1)
	}
	if s.Taken {
		ends := now.Add(e.Session.Left() - age)
		if was { // a refresh that was sent late must not move the end back
			ends = max(ends, s.Ends)
		}
		s.Ends = ends
		if v.passed != 0 {
			s.Promise(v.passed.Add(e.Session.Left()))
		}
		v.ends.set(&s.due, s.Ends)
	} else if e.Corrupt != nil {
		v.ends.drop(&s.due)
	}
	v.heard(s.ID)
	if was != s.Taken {
		v.livenessChanged(s, now)
	}
}

// livenessChanged updates the pools of a session that began or ended.
func (v *View) livenessChanged(s *Session, now Instant) {
	for _, slot := range s.Slots {
		slot.Pool.reindex(slot)
		v.touch(slot.Pool)
	}
	for _, t := range s.Tickets {
		v.scheduleTicket(t, now)
		v.touch(t.Pool)
	}
}
