package rules

import "time"

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
	keep := p.released[:0]
	for _, r := range p.released {
		if now.Sub(r.at) < ReleaseMemory {
			keep = append(keep, r)
		}
	}
	if len(keep) >= maxReleased {
		keep = keep[1:]
	}
	p.released = append(keep, release{owner, at})
}

// ReleasedBy reports whether that owner released the lock within the last
// ReleaseMemory.
func (p *Pool) ReleasedBy(owner string, now Instant) bool {
	if p == nil {
		return false
	}
	for _, r := range p.released {
		if r.owner == owner && now.Sub(r.at) < ReleaseMemory {
			return true
		}
	}
	return false
}
