package rules

import (
	"slices"
	"time"
)

// ReleaseMemory is how long it is remembered by which owner a lock was released.
const ReleaseMemory = time.Minute

// maxReleased bounds what is remembered for one lock.
const maxReleased = 64

// release is the end of a lock by its owner.
type release struct {
	owner string
	at    Instant
}

// noteRelease remembers that an owner released the pool's lock.
func (p *Pool) noteRelease(owner string, at, now Instant) {
	p.released = slices.DeleteFunc(p.released, func(r release) bool { return now.Sub(r.at) >= ReleaseMemory })
	if len(p.released) >= maxReleased {
		p.released = p.released[1:]
	}
	p.released = append(p.released, release{owner, at})
}

// ReleasedBy reports whether that owner released the lock within the last
// ReleaseMemory.
func (p *Pool) ReleasedBy(owner string, now Instant) bool {
	return p != nil && slices.ContainsFunc(p.released, func(r release) bool {
		return r.owner == owner && now.Sub(r.at) < ReleaseMemory
	})
}
