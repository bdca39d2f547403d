package rules

import (
	"slices"
	"time"

	"github.com/kvslots/kvslots/kvslots/internal/entry"
)

// Slot is one position of a pool whose key is in the bucket: it is taken, or it is
// free and has a marker.
type Slot struct {
	Pool     *Pool
	Position int
	record
	Value   entry.SlotValue
	Fence   uint64  // see entry.Entry.Fence
	Author  uint64  // of the last entry
	Granted Instant // when the lease began; if this peer has loaded a renewal, when that was written
	Ends    Instant // when the lease ends, as far as this peer knows

	excluded bool     // see Excluded
	void     bool     // the last entry is a claim, and Good is false
	seen     Instant  // when the last entry was written, as far as this peer knows
	session  *Session // the client session that holds the slot; nil: none
	sweepDue bool     // due is set for a purge, since holdsNone is true
}

// Live reports whether the slot is lent: it is taken under the pool's present
// generation, and the client session that holds it, if any, is alive.
func (s *Slot) Live() bool {
	return s.Taken && s.Value.Generation != 0 && s.Value.Generation == s.Pool.Generation() &&
		(s.session == nil || s.session.Alive())
}

// Orphaned reports whether the key has a value that is not a lease: its generation is
// not in force, its session has ended, or it is corrupt. A peer must purge the key before it
// claims the position, and may only do so when its view is live.
func (s *Slot) Orphaned() bool { return s.Taken && !s.Live() }

// holdsNone reports whether the value is orphaned, or an excluded claim.
func (s *Slot) holdsNone() bool { return s.Orphaned() || s.Excluded() }

// Label returns the label of the lease, or that of the client session that holds it.
func (s *Slot) Label() string {
	if s.Value.Label == "" && s.session.Alive() {
		return s.session.Value.Label
	}
	return s.Value.Label
}

// Rewritten returns the value that a peer writes to a lease's slot again.
func (s *Slot) Rewritten(ttl time.Duration) entry.SlotValue {
	value := s.Value
	value.TTL, value.Fence, value.Answers = entry.Span(ttl), s.Fence, s.answers()
	return value
}

// answers returns SlotValue.Answers, with that of the slot's claim. A claim for an enqueued ticket has none.
func (s *Slot) answers() []uint64 {
	switch {
	case s.Value.Fence != 0:
		return s.Value.Answers
	case s.Value.Unseen && s.Value.Ticket != 0:
		return nil
	}
	return []uint64{s.Author}
}

// Told reports whether a caller may have been told of the lease. None was of a slot that was claimed for
// an enqueued ticket.
func (s *Slot) Told() bool { return s.Value.Known || len(s.answers()) > 0 }

// Tells reports whether an answer is one of those that may have told a caller.
func (s *Slot) Tells(answer uint64) bool { return slices.Contains(s.answers(), answer) }

// Ended reports whether the lease's ttl is over. The other peers end a lease Slack later, but no
// peer then grants it to a session that has not been told of it.
func (s *Slot) Ended(now Instant) bool {
	untold := s.Value.Unseen && !s.Told()
	return now >= s.Ends || untold && now.Sub(s.Granted) >= s.Value.TTL.Duration()
}

// InDoubt reports whether the claim's peer may be about to withdraw the claim, since this peer
// would withdraw its own.
func (s *Slot) InDoubt(now Instant) bool { return s.void && s.Live() && now-s.seen < doubtTime }

// Excluded reports whether the slot's claim is void by what the stream says, for all peers alike:
// its generation, its session or its position is not in force, its ticket is not in the line or
// was served, or another live slot has its request key. Any peer may purge it. A view that was
// not live when it applied the claim does not know that, and counts the slot as taken.
func (s *Slot) Excluded() bool { return s.Taken && s.excluded }

// Good reports whether the claim's own peer may grant it: see claimed. A slot that was written
// again since is good.
func (s *Slot) Good() bool { return s.Taken && !s.void }

// requests holds a pool's taken slots by their request keys; nil while none has one.
type requests map[entry.Hash][]*Slot
