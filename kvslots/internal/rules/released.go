package rules

import (
	"slices"
	"time"
)

// ReleaseMemory is how long an owner's release of a lock is remembered.
const ReleaseMemory = time.Minute

// maxReleased is how many releases of one lock are remembered.
const maxReleased = 64

type release struct {
	owner string
	at    Instant
}

func (p *Pool) noteRelease(owner string, at, now Instant) {
	p.released = slices.DeleteFunc(p.released, func(r release) bool { return now.Sub(r.at) >= ReleaseMemory })
	if len(p.released) >= maxReleased {
		p.released = p.released[1:]
	}
	p.released = append(p.released, release{owner, at})
}

// ReleasedBy reports whether an owner released the lock within the last
// ReleaseMemory.
func (p *Pool) ReleasedBy(owner string, now Instant) bool {
	return p != nil && slices.ContainsFunc(p.released, func(r release) bool {
		return r.owner == owner && now.Sub(r.at) < ReleaseMemory
	})
}
