package rules

import "github.com/kvslots/kvslots/kvslots/internal/entry"

// Obstacle is why a borrow cannot be served in a pool, however many slots are free.
type Obstacle uint8

// The obstacles.
const (
	NoObstacle    Obstacle = iota
	SessionEnded           // the borrow's session is gone
	NotRegistered          // the pool is not registered, or has another generation
	OtherTerms             // the name is open under other terms
)

// Obstacle returns what stands in the way of a borrow. The session is zero for none, and
// the generation is 0 if any will do. A named pool that is not registered is no obstacle,
// since the borrow registers it.
func (v *View) Obstacle(pool *Pool, session entry.Hash, terms entry.Terms, generation uint64) Obstacle {
	switch {
	case !session.IsZero() && !v.Alive(session):
		return SessionEnded
	case terms.Named() && pool.Registered() && pool.Terms() != terms:
		return OtherTerms
	case !terms.Named() && (!pool.Registered() || generation != 0 && generation != pool.Generation()):
		return NotRegistered
	}
	return NoObstacle
}

// LineReaches reports whether the line and the tickets that are being written are at a
// limit; 0 means that there is none.
func (p *Pool) LineReaches(most, joining int) bool {
	return most > 0 && p.WaitingUpTo(most)+joining >= most
}

// NamesReach reports whether the named pools in use and those that are being opened are
// at a limit; 0 means that there is none.
func (v *View) NamesReach(most, opening int) bool {
	return most > 0 && v.InNames.Pools+opening >= most
}
