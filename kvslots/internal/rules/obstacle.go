package rules

import "github.com/kvslots/kvslots/kvslots/internal/entry"

// Obstacle is why a borrow cannot be served in a pool, however many slots are free.
type Obstacle uint8

const (
	NoObstacle    Obstacle = iota
	SessionEnded           // the borrow's session is gone
	NotRegistered          // the pool is not registered, or has another generation
	OtherTerms             // the named pool is registered with other terms
)

// Obstacle returns why a borrow cannot be served, or NoObstacle. session is zero for a
// borrow without a session, and generation is 0 if any generation will do. A named pool
// need not be registered, since the borrow registers it.
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

// LineReaches reports whether the tickets in the line and joining more reach the limit
// most. 0 means no limit.
func (p *Pool) LineReaches(most, joining int) bool {
	return most > 0 && p.WaitingUpTo(most)+joining >= most
}

// NamesReach reports whether the named pools in use and opening more reach the limit most.
// 0 means no limit.
func (v *View) NamesReach(most, opening int) bool {
	return most > 0 && v.InNames.Pools+opening >= most
}
