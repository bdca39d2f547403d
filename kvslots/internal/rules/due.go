package rules

import (
	"container/heap"
	"time"

	"github.com/kvslots/kvslots/kvslots/internal/entry"
)

// Instant is a reading of the local monotonic clock, from an origin that only
// the caller knows. It is always an argument: the rules read no clock.
type Instant time.Duration

// Add is the instant d later.
func (i Instant) Add(d time.Duration) Instant { return i + Instant(d) }

// Sub is the duration since an earlier instant.
func (i Instant) Sub(earlier Instant) time.Duration { return time.Duration(i - earlier) }

// due is when a key is to be purged if it has not changed by then.
type due struct {
	at    Instant
	index int // in the queue; -1 when not in it
	of    interface{ overdue() Due }
}

// Due is a key whose time has come, with the revision that it had.
type Due struct {
	Key      entry.Key
	Revision uint64
	Ticket   uint64 // of a slot: the ticket that its lease was granted for
}

type dues []*due

func (q dues) Len() int           { return len(q) }
func (q dues) Less(i, j int) bool { return q[i].at < q[j].at }
func (q dues) Swap(i, j int) {
	q[i], q[j] = q[j], q[i]
	q[i].index, q[j].index = i, j
}

func (q *dues) Push(x any) {
	d := x.(*due)
	d.index = len(*q)
	*q = append(*q, d)
}

func (q *dues) Pop() any {
	old := *q
	d := old[len(old)-1]
	old[len(old)-1] = nil
	*q = old[:len(old)-1]
	d.index = -1
	return d
}

func (q *dues) set(d *due, at Instant) {
	d.at = at
	if d.index < 0 {
		heap.Push(q, d)
	} else {
		heap.Fix(q, d.index)
	}
}

func (q *dues) drop(d *due) {
	if d.index >= 0 {
		heap.Remove(q, d.index)
	}
}
