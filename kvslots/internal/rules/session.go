package rules

import (
	"maps"
	"slices"

	"github.com/kvslots/kvslots/kvslots/internal/entry"
)

// Session is a peer's presence or a client session. It lives for as long as a peer
// refreshes its key.
type Session struct {
	ID entry.Hash
	record
	endedKeys
	Value    entry.SessionValue
	Ends     Instant // when this peer ends it unless it is refreshed
	Promised Instant // no peer ends it before that; 0: not known

	Tickets []*Ticket // of a client session, those that end with it; of a peer's presence, those that it claims for
	Slots   []*Slot   // the taken slots of a client session

	stalled bool // a presence: its peer let a turn in a line pass, and has given no sign of life since
}

// sessions holds the sessions that are alive or have left slots, tickets or a marker.
type sessions struct {
	byID    map[entry.Hash]*Session
	peers   map[*Session]struct{} // the presences that are alive
	Clients int                   // the number of client sessions that are alive
	origins tally                 // the same for each origin
}

// Alive reports whether the session is alive: its key has a value. A nil *Session
// is not alive.
func (s *Session) Alive() bool { return s != nil && s.Taken }

func (s *Session) isClient() bool { return s.Taken && s.Value.Kind == entry.SessionClient }

// Promise records that no peer ends the session before end. An earlier end than the
// one recorded has no effect: a refresh only moves the end forward.
func (s *Session) Promise(end Instant) { s.Promised = max(s.Promised, end) }

func (ss *sessions) Session(id entry.Hash) *Session { return ss.byID[id] }

func (ss *sessions) Alive(id entry.Hash) bool { return ss.byID[id].Alive() }

// Peers iterates over the presences that are alive. The caller must not depend on their
// order.
func (ss *sessions) Peers(yield func(*Session) bool) { maps.Keys(ss.peers)(yield) }

func (ss *sessions) CountPeers() int { return len(ss.peers) }

// setHolder records which client session holds a slot; the zero Hash means none.
func (v *View) setHolder(s *Slot, session entry.Hash) {
	if s.session != nil && s.session.ID == session {
		return
	}
	if s.session != nil {
		s.session.Slots = deleteFrom(s.session.Slots, s)
		v.holdBy(s.session, s.Pool, -1)
		v.dropUnused(s.session)
		s.session = nil
	}
	if !session.IsZero() {
		s.session = v.makeSession(session)
		s.session.Slots = append(s.session.Slots, s)
		v.holdBy(s.session, s.Pool, 1)
	}
}

func deleteFrom[T comparable](list []T, x T) []T {
	if i := slices.Index(list, x); i >= 0 {
		return slices.Delete(list, i, i+1)
	}
	return list
}

// countSession adds n to the counts of the sessions that are alive, if s is.
func (v *View) countSession(s *Session, n int) {
	ss := &v.sessions
	switch {
	case !s.Taken:
	case s.isClient():
		v.holdAll(s, n)
		ss.Clients += n
		ss.origins.add(s.Value.Origin, n)
	case n > 0:
		ss.peers[s] = struct{}{}
	default:
		delete(ss.peers, s)
	}
}

func (ss *sessions) ClientsFrom(origin entry.Hash) int { return ss.origins[origin] }

// heard records a sign of life of a peer. The line does not pass over it any more.
func (v *View) heard(id entry.Hash) {
	s := v.byID[id]
	if s == nil || !s.stalled {
		return
	}
	s.stalled = false
	for _, t := range s.Tickets {
		t.turnSince = 0
		v.touch(t.Pool)
	}
}

// makeSession returns the session of an id. It creates one if there is none: the view
// may apply a ticket before its session, if it skipped the session's first entry.
func (ss *sessions) makeSession(id entry.Hash) *Session {
	s := ss.byID[id]
	if s == nil {
		s = &Session{ID: id}
		s.init(s)
		ss.byID[id] = s
	}
	return s
}

// dropUnused drops a session that has ended, if it has no slots, tickets or marker left.
func (v *View) dropUnused(s *Session) {
	if !s.Taken && len(s.Tickets) == 0 && len(s.Slots) == 0 && s.mark.index == 0 && v.byID[s.ID] == s {
		v.uncountEnded(&s.endedKeys)
		delete(v.byID, s.ID)
	}
}

// holdBy adds n to the entries of a client session that is alive, and of its origin.
func (v *View) holdBy(s *Session, pool *Pool, n int) {
	if s.isClient() {
		v.hold(s.ID, pool.ID, n)
		v.hold(s.Value.Origin, pool.ID, n)
	}
}

// holdAll adds n to the entries of a session for each slot and ticket that it has.
func (v *View) holdAll(s *Session, n int) {
	for _, slot := range s.Slots {
		v.holdBy(s, slot.Pool, n)
	}
	for _, t := range s.Tickets {
		if t.session == s {
			v.holdBy(s, t.Pool, n)
		}
	}
}
