package rules

import (
	"time"

	"github.com/kvslots/kvslots/kvslots/internal/entry"
)

const (
	// releasedTime is how long a release by an owner is remembered.
	releasedTime = time.Minute

	// maxReleased bounds the releases that are remembered.
	maxReleased = 1 << 16
)

// releases remembers which owner released which lock within the last minute. It
// is fed by the markers in the stream, so every peer knows about the releases of
// all peers. The zero value is empty.
type releases struct {
	last  map[ownerOfPool]*release
	order []*release // oldest first
}

type ownerOfPool struct{ pool, owner entry.Hash }

type release struct {
	of   ownerOfPool
	at   time.Time // by the stream leader's clock
	seen Instant
}

// note takes down a slot's marker, if an owner's release wrote it.
func (r *releases) note(pool entry.Hash, e entry.Entry, seen Instant) {
	if e.Owner.IsZero() {
		return
	}
	for len(r.order) > 0 && (len(r.order) >= maxReleased || e.Time.Sub(r.order[0].at) > releasedTime) {
		if oldest := r.order[0]; r.last[oldest.of] == oldest { // not one that came after it
			delete(r.last, oldest.of)
		}
		r.order[0] = nil
		r.order = r.order[1:]
	}
	if r.last == nil {
		r.last = map[ownerOfPool]*release{}
	}
	noted := &release{of: ownerOfPool{pool, e.Owner}, at: e.Time, seen: seen}
	r.last[noted.of] = noted
	r.order = append(r.order, noted)
}

// rebase sets anew how long ago the releases were: see World.Rebase.
func (r *releases) rebase(streamNow time.Time, now Instant) {
	for _, noted := range r.order {
		noted.seen = now.Add(-max(0, streamNow.Sub(noted.at)))
	}
}

// ReleasedBy reports whether the owner released the pool's slot within the last
// minute.
func (w *World) ReleasedBy(pool, owner entry.Hash, now Instant) bool {
	noted := w.released.last[ownerOfPool{pool, owner}]
	return noted != nil && now.Sub(noted.seen) < releasedTime
}
