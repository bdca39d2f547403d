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
