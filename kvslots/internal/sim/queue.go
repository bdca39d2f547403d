package sim

import (
	"slices"
	"sort"

	"github.com/kvslots/kvslots/kvslots/internal/peer"
)

// Instant is a reading of the simulation's clock. Each node's peer has a clock of its
// own.
type Instant = peer.Instant

type event struct {
	at  Instant
	run func()
}

// queue contains the scheduled events, the last one first, so that those of the near
// future, which are most frequent, are inserted near the end of the slice. Events of
// the same time run in the order in which they were added.
type queue []event

func (q *queue) add(at Instant, run func()) {
	i := sort.Search(len(*q), func(i int) bool { return (*q)[i].at <= at })
	*q = slices.Insert(*q, i, event{at, run})
}

func (q queue) empty() bool { return len(q) == 0 }

// next returns the time of the next event. The queue must not be empty.
func (q queue) next() Instant { return q[len(q)-1].at }

// take removes and returns the next event.
func (q *queue) take() event {
	last := len(*q) - 1
	e := (*q)[last]
	(*q)[last] = event{}
	*q = (*q)[:last]
	return e
}
