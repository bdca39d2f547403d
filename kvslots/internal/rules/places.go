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

func (s *places) count(origin entry.Hash, n int) {
	s.kept += n
	s.byOrigin.add(origin, n)
}

// noteAbsent notes since when no caller waits at a place of an origin; 0: one waits, or the place does
// not count.
func (s *places) noteAbsent(origin entry.Hash, absence *deadline, since Instant) {
	q := s.absent[origin]
	switch {
	case since == 0 && q == nil:
		return
	case since == 0:
		if q.drop(absence); q.Len() == 0 {
			delete(s.absent, origin)
		}
		return
	case q == nil:
		q = new(deadlineQueue)
		s.absent[origin] = q
	}
	q.set(absence, since)
}

// oldestAbove returns the oldest absent place of an origin if a limit is exceeded, or nil.
func (s *places) oldestAbove(origin entry.Hash) *record {
	exceeded := s.MaxPlacesPerOrigin > 0 && s.byOrigin[origin] > s.MaxPlacesPerOrigin || s.MaxPlaces > 0 && s.kept > s.MaxPlaces
	if q := s.absent[origin]; exceeded && q != nil {
		return (*q)[0].of
	}
	return nil
}
