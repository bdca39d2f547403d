package rules

import (
	"slices"
	"time"
)

// ReleaseMemory is how long an owner's release of a lock is remembered.
const ReleaseMemory = time.Minute

// maxReleased is how many releases of one lock are remembered.
const maxReleased = 64

type releases []release

type release struct {
	owner string
	at    Instant
}

func (r *releases) note(owner string, at, now Instant) {
	*r = slices.DeleteFunc(*r, func(x release) bool { return now.Sub(x.at) >= ReleaseMemory })
	if len(*r) >= maxReleased {
		*r = (*r)[1:]
	}
	*r = append(*r, release{owner, at})
}

func (r releases) by(owner string, now Instant) bool {
	return slices.ContainsFunc(r, func(x release) bool {
		return x.owner == owner && now.Sub(x.at) < ReleaseMemory
	})
}
