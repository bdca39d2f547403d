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
	Value    entry.SessionValue

	stalled bool // it let a turn in a line pass, and has not been heard of since
	tickets map[*Ticket]struct{}
	due     due
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
