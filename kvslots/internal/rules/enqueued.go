package rules

import (
	"time"

	"github.com/kvslots/kvslots/kvslots/internal/entry"
)

// PromoteGrace is how long it must have been an enqueued ticket's turn before any peer claims for it.
const PromoteGrace = 300 * time.Millisecond

func EnqueuedKey(pool, session entry.Hash) entry.Key {
	return entry.Key{Kind: entry.Ticket, Pool: pool, Session: session}
}

// EnqueuedIn returns what there is of a session's Enqueue in a pool: its ticket, and its slot if a
// peer has claimed one and the session has not called Await since. Either may be nil.
func (v *View) EnqueuedIn(pool *Pool, session entry.Hash) (t *Ticket, s *Slot) {
	of := v.Session(session)
	if pool == nil || of == nil {
		return nil, nil
	}
	for _, slot := range of.Slots {
		// A claim without a ticket is of a later Enqueue than a void one that names a ticket.
		if slot.Pool == pool && slot.Live() && slot.Value.Unseen && (s == nil || slot.Value.Ticket == 0) {
			s = slot
		}
	}
	if t = pool.TicketAt(EnqueuedKey(pool.ID, session)); t != nil && (t.Garbage() || t.told() && s == nil) {
		t = nil
	}
	return t, s
}

// Serves reports whether a slot that was claimed for an Enqueue is lent to its session: this peer
// would grant it, and it names no ticket but t, which may be nil. If the slot names another one, it was
// claimed for an earlier Enqueue, whose ticket was purged before the claim reached the stream.
func (s *Slot) Serves(t *Ticket) bool {
	place := s.Value.Ticket
	return !s.Excluded() && (place == 0 || s.Good() && (t == nil || t.Place == place))
}

// Promotes reports whether a peer has to claim for an enqueued ticket now. For PromoteGrace only the
// ticket's own peer has.
func (t *Ticket) Promotes(self entry.Hash, now Instant) bool {
	return t.Value.Peer == self || t.turnSince != 0 && now.Sub(t.turnSince) >= PromoteGrace
}
