package rules

import (
	"time"

	"github.com/kvslots/kvslots/kvslots/internal/entry"
)

// Slot is one position of a pool, as far as its key was ever seen.
type Slot struct {
	Pool     *Pool
	Position int
	Revision uint64    // of the key's last entry, marker or not; 0 when the key is absent
	Time     time.Time // of that entry, by the stream leader's clock
	Taken    bool      // the key has a value
	Value    entry.SlotValue
	Fence    uint64 // the revision of the lease's first write

	seen     Instant // when that entry was applied
	promised Instant // the end that this peer promised the holder; 0 when another did
	before   Instant // the same, for the entry before
	goodAt   uint64  // the claim was found good when the view stood there; not yet certain
	hidden   bool    // something may have happened to another key just then
	settled  bool    // the claim is good for certain
	queued   bool    // in the world's queue of markers
	due      due
}

// Live tells whether the slot is lent: taken, under the pool's incarnation of
// now.
func (s *Slot) Live() bool { return s.Taken && s.Pool.knows(s.Value.Incarnation) }

// Stale tells whether the key is taken by something that holds no slot: an
// entry of an older incarnation, or a corrupt one. It must be purged before the
// position can be claimed, and only from an exact view.
func (s *Slot) Stale() bool { return s.Taken && !s.Pool.knows(s.Value.Incarnation) }

// Verdict is what the rules say of a claim.
type Verdict int

// The verdicts.
const (
	Pending Verdict = iota // not yet decided: somebody before it in the line may still claim
	Good                   // the lease may be granted
	Void                   // it must be purged; nobody was told of it
)

// Verdict judges the slot's claim by the world as it stands, at or after the
// claim's own revision. It is certain only if the view is exact.
//
// Good means that at this instant the claim, the lowest free position before
// it, is within a count that all live slots fit in, and nobody stands before it
// in the line: so the borrowing can be said to have happened now.
func (s *Slot) Verdict(now Instant) Verdict {
	p := s.Pool
	switch {
	case !s.Live():
		return Void
	case s.settled || s.goodAt != 0:
		return Good
	case s.Position >= p.Count():
		return Void
	}
	place := s.Fence
	if s.Value.Ticket != 0 {
		place = s.Value.Ticket
	}
	room := p.Count() - p.liveUpTo(s.Fence)
	if room < 0 {
		return Void
	}
	ahead := p.ahead(place, room+1)
	freeBelow := s.Position - p.live.below(s.Position)
	switch {
	case ahead > room, freeBelow > ahead:
		return Void
	case ahead > 0, p.live.len() > p.Count(), p.doubtBelow(s.Position, now):
		return Pending
	}
	return Good
}
