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

	life     life
	claim    *claim  // nil when the lease is known to be good
	seen     Instant // when that entry was applied
	granted  Instant // when the lease's first entry was, or the earliest that is known
	promised Instant // the end that this peer promised the holder; 0 when another did
	before   Instant // the same, for the entry before
	ends     Instant // when it is purged unless it changes
	counted  uint64  // the terms under which it counts among the live ones
	stray    bool    // in the pool's list of strays
	hurried  bool    // it is purged before that, for it is stale
	queued   bool    // in the world's queue of markers
	session  *Session
	due      due
}

// Live tells whether the slot is lent: taken, under the pool's incarnation of
// now, by a client session that is alive, if it is one's.
//
// A slot of a named pool is lent whatever its terms: see Pool.Disputed. One without
// a name that stands there is somebody else's hand.
func (s *Slot) Live() bool {
	if s.Value.Name != "" {
		return s.Taken && s.owned()
	}
	return s.Taken && s.Pool.configured() && s.Pool.knows(s.Value.Incarnation) && s.owned()
}

// owned tells whether the slot's client session is alive, if it has one.
func (s *Slot) owned() bool { return s.session == nil || s.session.Present }

// Stale tells whether the key is taken by something that holds no slot: an
// entry of an older incarnation, of a session that has ended, or a corrupt one.
// It must be purged before the position can be claimed, and only from an exact
// view.
func (s *Slot) Stale() bool { return s.Taken && !s.Live() }

// Verdict is what the rules say of the slot's claim.
func (s *Slot) Verdict() Verdict {
	switch {
	case !s.Taken:
		return Void
	case s.claim != nil:
		return s.claim.verdict
	}
	return Good
}

// Granted is when the lease began; for one that was renewed before this peer
// came, when it was renewed.
func (s *Slot) Granted() Instant { return s.granted }

// EndsAt is when the lease ends, as far as this peer can tell.
func (s *Slot) EndsAt() Instant {
	if s.promised != 0 {
		return s.promised
	}
	return s.seen.Add(time.Duration(s.Value.TTL))
}

// InDoubt tells whether the claim may yet be withdrawn.
func (s *Slot) InDoubt(now Instant) bool { return s.inDoubt(now) }

// inDoubt tells whether the claim may yet be withdrawn. One that has been there
// for long will not be: its peer is no more.
func (s *Slot) inDoubt(now Instant) bool { return s.Live() && s.doubtful(now) }

func (s *Slot) doubtful(now Instant) bool { return s.claim != nil && now-s.seen < doubtTime }
