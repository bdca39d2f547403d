package rules

import (
	"time"

	"github.com/kvslots/kvslots/kvslots/internal/entry"
)

// Session is somebody who is alive as long as the session's key is refreshed.
type Session struct {
	ID       entry.Hash
	Present  bool // the key has a value
	Revision uint64
	Time     time.Time
	Seen     Instant // when that entry was written, by this peer's clock
	Value    entry.SessionValue

	life    life
	stalled bool // it let a turn in a line pass, and has not been heard of since
	tickets map[*Ticket]struct{}
	slots   map[*Slot]struct{} // those that a client session owns
	due     due
}

// ending is a session that ended lately.
type ending struct {
	session entry.Hash
	at      time.Time
}

// EndedBefore tells whether a session had ended when the stream stood at that
// revision, which the view has reached not long ago.
func (w *World) EndedBefore(session entry.Hash, revision uint64) bool {
	at, ended := w.ended[session]
	return ended && at < revision
}

// TicketsOf are the tickets of a session, in no order.
func (w *World) TicketsOf(session entry.Hash) []*Ticket {
	var found []*Ticket
	if s := w.sessions[session]; s != nil {
		for t := range s.tickets {
			found = append(found, t)
		}
	}
	return found
}

// SlotsOf are the taken slots of a client session, in no order.
func (w *World) SlotsOf(session entry.Hash) []*Slot {
	var found []*Slot
	if s := w.sessions[session]; s != nil {
		for slot := range s.slots {
			found = append(found, slot)
		}
	}
	return found
}

// EachSlotOf calls yield for every taken slot of a client session, in no order,
// until it returns false.
func (w *World) EachSlotOf(session entry.Hash, yield func(*Slot) bool) {
	if s := w.sessions[session]; s != nil {
		for slot := range s.slots {
			if !yield(slot) {
				return
			}
		}
	}
}

// Unattended are tickets, at most limit, whose session is not alive. In an exact
// view it has ended, and whoever ended it did not get to purge them.
func (w *World) Unattended(limit int) []*Ticket {
	var found []*Ticket
	for _, s := range w.sessions {
		if s.Present {
			continue
		}
		for t := range s.tickets {
			if found = append(found, t); len(found) >= limit {
				return found
			}
		}
	}
	return found
}

// Peers are the presences of the peers that are alive, in no order.
func (w *World) Peers(yield func(*Session) bool) {
	for _, s := range w.sessions {
		if s.Present && s.Value.Kind == entry.SessionPeer && !yield(s) {
			return
		}
	}
}

// own notes whose client session's slot it is.
func (w *World) own(s *Slot, session entry.Hash) {
	if s.session != nil {
		delete(s.session.slots, s)
		w.left(s.session)
		s.session = nil
	}
	if !session.IsZero() {
		s.session = w.session(session)
		s.session.slots[s] = struct{}{}
	}
}

// learnOf notes that a session had been there before the view came to know it:
// what it has was taken for nothing meanwhile. One that was known to be alive has
// been alive all the time, for an id is used once.
func (w *World) learnOf(e entry.Entry) {
	s := w.sessions[e.Key.Session]
	if s == nil || s.Present {
		return
	}
	for slot := range s.slots {
		slot.Pool.skipped(0, e.Previous)
	}
	for t := range s.tickets {
		t.Pool.skipped(0, e.Previous)
	}
}

func (w *World) applySession(e entry.Entry, now Instant, age time.Duration) {
	s := w.session(e.Key.Session)
	changed := s.Present != (!e.Marker && e.Corrupt == nil)
	w.count(s, -1)
	s.Present = !e.Marker && e.Corrupt == nil
	s.Revision, s.Time, s.Value, s.Seen = e.Revision, e.Time, e.Session, now.Add(-age)
	s.life = lifeOf(e)
	w.count(s, 1)
	if s.Present {
		w.dues.set(&s.due, s.Seen.Add(e.Session.Left()))
	} else {
		w.dues.drop(&s.due)
	}
	w.heard(s.ID)
	if changed {
		w.presence(s, now)
	}
	if e.Marker { // an id is used once: its tickets are gone for good
		for t := range s.tickets {
			w.touch(t.Pool)
			t.Pool.line.remove(t)
			w.derive(t.Pool, now)
		}
		delete(w.sessions, s.ID)
		w.ended[s.ID] = e.Revision
		w.endings = append(w.endings, ending{s.ID, e.Time})
	}
}

// presence brings up to date what depends on a session's being alive.
func (w *World) presence(s *Session, now Instant) {
	for slot := range s.slots {
		slot.Pool.reindex(slot)
		w.touch(slot.Pool)
	}
	for slot := range s.slots { // when all are counted: they may have different terms, and come in no order
		w.derive(slot.Pool, now)
	}
	for t := range s.tickets {
		w.derive(t.Pool, now)
		w.touch(t.Pool)
	}
}

// count counts a client session that is alive, or no more.
func (w *World) count(s *Session, n int) {
	if !s.Present || s.Value.Kind != entry.SessionClient {
		return
	}
	w.clients += n
	if w.origins[s.Value.Origin] += n; w.origins[s.Value.Origin] == 0 {
		delete(w.origins, s.Value.Origin)
	}
}

// Clients is the number of client sessions that are alive.
func (w *World) Clients() int { return w.clients }

// ClientsFrom is the number of those that come from one origin.
func (w *World) ClientsFrom(origin entry.Hash) int { return w.origins[origin] }

// heard notes a sign of life of a session that had let a turn pass.
func (w *World) heard(id entry.Hash) {
	s := w.sessions[id]
	if s == nil || !s.stalled {
		return
	}
	s.stalled = false
	for t := range s.tickets {
		t.couldSince = 0
		w.touch(t.Pool)
	}
}

// session is the session of that id, made if need be: a ticket may be seen
// before its session when the session's first entry was skipped.
func (w *World) session(id entry.Hash) *Session {
	s := w.sessions[id]
	if s == nil {
		s = &Session{ID: id, tickets: map[*Ticket]struct{}{}, slots: map[*Slot]struct{}{}}
		s.due = due{index: -1, of: s}
		w.sessions[id] = s
	}
	return s
}

// left forgets a session of which nothing is known but a ticket or a slot that
// has gone.
func (w *World) left(s *Session) {
	if !s.Present && len(s.tickets) == 0 && len(s.slots) == 0 && w.sessions[s.ID] == s {
		delete(w.sessions, s.ID)
	}
}
