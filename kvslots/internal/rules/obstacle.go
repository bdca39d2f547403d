package rules

import "github.com/kvslots/kvslots/kvslots/internal/entry"

// Obstacle is why a borrow cannot be served in a pool, however many slots are free.
type Obstacle uint8

const (
	NoObstacle    Obstacle = iota
	SessionEnded           // the borrow's session is gone
	NotRegistered          // the registered pool does not exist, or has another generation
	OtherTerms             // the named pool exists with other terms
)

// Obstacle returns why a borrow cannot be served, or NoObstacle. session is zero for a
// borrow without a session, and generation is 0 if any generation will do. A named pool
// need not exist, since the borrow opens it.
func (v *View) Obstacle(pool *Pool, session entry.Hash, terms entry.Terms, generation uint64) Obstacle {
	switch {
	case !session.IsZero() && !v.Alive(session):
		return SessionEnded
	case terms.Named() && pool.Exists() && pool.Terms() != terms:
		return OtherTerms
	case !terms.Named() && (!pool.Exists() || generation != 0 && generation != pool.Generation()):
		return NotRegistered
	}
	return NoObstacle
}

// LineReaches reports whether the tickets in the line and joining more reach the limit
// most. 0 means no limit.
func (p *Pool) LineReaches(most, joining int) bool {
	return most > 0 && p.WaitingUpTo(most)+joining >= most
}
