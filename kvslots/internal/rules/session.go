package rules

import (
	"maps"
	"slices"
	"time"

	"github.com/kvslots/kvslots/kvslots/internal/entry"
)

// Session is a peer's presence or a client's session: it is alive as long as its
// key is refreshed.
type Session struct {
	ID entry.Hash
	record
	Value    entry.SessionValue
	Ends     Instant // when this peer ends it unless it is refreshed
	Promised Instant // when the first peer may end it, at the earliest; 0: that is not known

	// These change with the world.
	Tickets []*Ticket // those of which it is the author and, of a peer, those that it claims for
	Slots   []*Slot   // the taken slots of a client session

	stalled bool // a peer that let its turn in a line pass, and has not been heard of since
}

// sessions are those that are alive, and those of which something is still there.
type sessions struct {
	byID    map[entry.Hash]*Session
	peers   map[*Session]struct{}
	Clients int                // client sessions that are alive
	origins map[entry.Hash]int // the same, by where they come from
	endings []ending           // the sessions that ended lately
}

// ending is a session that ended lately.
type ending struct {
	session  entry.Hash
	revision uint64
	until    Instant // the marker's end
}

// Alive reports whether the session is there: it is no more than a note of what it
// left when its key has no value. A nil *Session is not alive.
func (s *Session) Alive() bool { return s != nil && s.Taken }

// Promise notes that no peer ends the session before that time. It is never taken back:
// a refresh moves the end of a session forward.
func (s *Session) Promise(end Instant) { s.Promised = max(s.Promised, end) }

// EndedBefore reports whether a session had ended when the stream stood at that
// revision, which the view has reached not long ago.
func (ss *sessions) EndedBefore(session entry.Hash, revision uint64) bool {
	for _, e := range slices.Backward(ss.endings) {
		if e.session == session {
			return e.revision < revision
		}
	}
	return false
}

// Session is a session that is alive, or of which something is still there; or
// nil.
func (ss *sessions) Session(id entry.Hash) *Session { return ss.byID[id] }

// Alive reports whether the view has the session.
func (ss *sessions) Alive(id entry.Hash) bool { return ss.byID[id].Alive() }

// Peers calls yield for the presences of the peers that are alive, in no order,
// until it returns false. What is done with them must not depend on the order.
func (ss *sessions) Peers(yield func(*Session) bool) { maps.Keys(ss.peers)(yield) }

// own notes which client session holds a slot.
func (w *World) own(s *Slot, session entry.Hash) {
	if s.session != nil && s.session.ID == session {
		return
	}
	if s.session != nil {
		s.session.Slots = without(s.session.Slots, s)
		w.left(s.session)
		s.session = nil
	}
	if !session.IsZero() {
		s.session = w.session(session)
		s.session.Slots = append(s.session.Slots, s)
	}
}

func without[T comparable](list []T, x T) []T {
	if i := slices.Index(list, x); i >= 0 {
		return slices.Delete(list, i, i+1)
	}
	return list
}

// learnOf notes that a session had been there before the view came to know it:
// what it has was taken for nothing meanwhile. One that was known to be alive has
// been alive all the time, for an id is used once.
func (w *World) learnOf(e *entry.Entry) {
	s := w.byID[e.Key.Session]
	if s == nil || s.Taken {
		return
	}
	for _, slot := range s.Slots {
		slot.Pool.skipped(0, e.Previous)
	}
	for _, t := range s.Tickets {
		t.Pool.skipped(0, e.Previous)
	}
}

func (w *World) applySession(e *entry.Entry, now Instant, age time.Duration) {
	s := w.session(e.Key.Session)
	was := s.Taken
	w.count(s, -1)
	w.note(&s.record, e, now, age)
	s.Taken, s.Value = s.Taken && e.Corrupt == nil, e.Session
	w.count(s, 1)
	if s.Taken {
		s.Ends = now.Add(e.Session.Left() - age)
		if w.sends.passed != 0 {
			s.Promise(w.sends.passed.Add(e.Session.Left()))
		}
		w.ends.set(&s.due, s.Ends)
	} else if e.Corrupt != nil {
		w.ends.drop(&s.due)
	}
	w.heard(s.ID)
	if was != s.Taken {
		w.presenceChanged(s)
	}
	if !e.Marker {
		return
	}
	w.endings = append(w.endings, ending{s.ID, e.Revision, now.Add(MarkerTTL)})
	for _, t := range s.Tickets { // gone for good, since an id is used once; their keys are left to be purged
		w.garbage(t, now)
	}
}

// presenceChanged brings up to date what depends on a session's being alive.
func (w *World) presenceChanged(s *Session) {
	for _, slot := range s.Slots {
		slot.Pool.reindex(slot)
		w.touch(slot.Pool)
	}
	for _, t := range s.Tickets {
		w.touch(t.Pool)
	}
}

// count counts a session that is alive, or no more.
func (ss *sessions) count(s *Session, n int) {
	switch origin := s.Value.Origin; {
	case !s.Taken:
	case s.Value.Kind == entry.SessionClient:
		ss.Clients += n
		if ss.origins[origin] += n; ss.origins[origin] == 0 {
			delete(ss.origins, origin)
		}
	case n > 0:
		ss.peers[s] = struct{}{}
	default:
		delete(ss.peers, s)
	}
}

// ClientsFrom is the number of those that come from one origin.
func (ss *sessions) ClientsFrom(origin entry.Hash) int { return ss.origins[origin] }

// heard notes a sign of life of a peer that had let a turn pass.
func (w *World) heard(id entry.Hash) {
	s := w.byID[id]
	if s == nil || !s.stalled {
		return
	}
	s.stalled = false
	for _, t := range s.Tickets {
		t.couldSince = 0
		w.touch(t.Pool)
	}
}

// session is the session of that id, made if need be: a ticket may be seen
// before its session when the session's first entry was skipped.
func (ss *sessions) session(id entry.Hash) *Session {
	s := ss.byID[id]
	if s == nil {
		s = &Session{ID: id}
		s.due.of, s.mark.of = s, s
		ss.byID[id] = s
	}
	return s
}

// left forgets a session of which nothing is known any more.
func (w *World) left(s *Session) {
	if !s.Taken && len(s.Tickets) == 0 && len(s.Slots) == 0 && s.mark.index == 0 && w.byID[s.ID] == s {
		delete(w.byID, s.ID)
	}
}
