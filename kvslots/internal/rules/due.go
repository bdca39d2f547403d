package rules

import (
	"container/heap"
	"time"
)

// Instant is a reading of the local monotonic clock, from an origin that only
// the caller knows. It is always an argument: the rules read no clock.
type Instant time.Duration

// Add is the instant d later.
func (i Instant) Add(d time.Duration) Instant { return i + Instant(d) }

// Sub is the duration since an earlier instant.
func (i Instant) Sub(earlier Instant) time.Duration { return time.Duration(i - earlier) }

// due is a place in a deadline queue.
type due struct {
	at    Instant
	index int // in the queue, from 1; 0: not in it
	of    any // *Slot, *Session or *Pool
}

// dues is a deadline queue, earliest first.
type dues []*due

func (q dues) Len() int           { return len(q) }
func (q dues) Less(i, j int) bool { return q[i].at < q[j].at }
func (q dues) Swap(i, j int) {
	q[i], q[j] = q[j], q[i]
	q[i].index, q[j].index = i+1, j+1
}

func (q *dues) Push(x any) {
	d := x.(*due)
	*q = append(*q, d)
	d.index = len(*q)
}

func (q *dues) Pop() any {
	old := *q
	d := old[len(old)-1]
	old[len(old)-1] = nil
	*q = old[:len(old)-1]
	d.index = 0
	return d
}

func (q *dues) set(d *due, at Instant) {
	if d.index == 0 {
		d.at = at
		heap.Push(q, d)
	} else if d.at != at {
		d.at = at
		heap.Fix(q, d.index-1)
	}
}

func (q *dues) drop(d *due) {
	if d.index != 0 {
		heap.Remove(q, d.index-1)
	}
}
