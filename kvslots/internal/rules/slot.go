package rules

import "github.com/kvslots/kvslots/kvslots/internal/entry"

// Slot is one position of a pool whose key is in the bucket: taken, or free with
// a marker.
type Slot struct {
	Pool     *Pool
	Position int
	record
	Value    entry.SlotValue
	Fence    uint64  // the revision of the lease's first write
	Replaced uint64  // the revision that the last entry was written over
	Granted  Instant // when the lease began; for one that was renewed before this peer came, when it was renewed
	Ends     Instant // when the lease ends, as far as this peer can tell

	claim   *claim  // nil when the lease is known to be good
	seen    Instant // when the last entry was written, as far as is known
	session *Session
	stray   bool // its purge is due because it holds no slot
}

// Live reports whether the slot is lent: taken, under the pool's generation of
// now, by a client session that is alive, if it is one's.
func (s *Slot) Live() bool {
	return s.Taken && s.Value.Generation != 0 && s.Value.Generation == s.Pool.Generation() &&
		(s.session == nil || s.session.Alive())
}

// Stale reports whether the key is taken by something that holds no slot: an
// entry of another generation, of a session that has ended, or a corrupt one.
// It must be purged before the position can be claimed, and only from an exact
// view.
func (s *Slot) Stale() bool { return s.Taken && !s.Live() }

// meaningless reports whether the key is to be purged because it holds no slot.
func (s *Slot) meaningless() bool { return s.Stale() || s.Excluded() }

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

// Ended reports whether the lease has lasted its time.
func (s *Slot) Ended(now Instant) bool { return now >= s.Ends }

// InDoubt reports whether the claim may yet be withdrawn. One that has been there
// for long will not be: its peer is no more.
func (s *Slot) InDoubt(now Instant) bool { return s.Live() && s.doubtful(now) }

func (s *Slot) doubtful(now Instant) bool { return s.claim != nil && now-s.seen < doubtTime }
