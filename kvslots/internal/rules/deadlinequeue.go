package rules

import (
	"container/heap"
	"time"
)

// Instant is a reading of this machine's monotonic clock, from an origin that the
// caller chooses.
type Instant time.Duration

func (i Instant) Add(d time.Duration) Instant { return i + Instant(d) }

func (i Instant) Sub(earlier Instant) time.Duration { return time.Duration(i - earlier) }

// deadline is an instant at which something is to be done about a key.
type deadline struct {
	at    Instant
	index int // in the queue, from 1; 0: not in it
	of    *record
}

// deadlineQueue is a heap of deadlines, the earliest first. It shares no code with the alarm queue
// of package peer: the two differ in order and contents, and what is left is container/heap.
type deadlineQueue []*deadline

func (q deadlineQueue) Len() int           { return len(q) }
func (q deadlineQueue) Less(i, j int) bool { return q[i].at < q[j].at }
func (q deadlineQueue) Swap(i, j int) {
	q[i], q[j] = q[j], q[i]
	q[i].index, q[j].index = i+1, j+1
}

func (q *deadlineQueue) Push(x any) {
	d := x.(*deadline)
	*q = append(*q, d)
	d.index = len(*q)
}

func (q *deadlineQueue) Pop() any {
	old := *q
	d := old[len(old)-1]
	old[len(old)-1] = nil
	*q = old[:len(old)-1]
	d.index = 0
	return d
}

func (q *deadlineQueue) set(d *deadline, at Instant) {
	if d.index == 0 {
		d.at = at
		heap.Push(q, d)
	} else if d.at != at {
		d.at = at
		heap.Fix(q, d.index-1)
	}
}

// move puts another deadline into the place of one that is in the queue.
func (q deadlineQueue) move(from, to *deadline) {
	to.at, to.index, from.index = from.at, from.index, 0
	q[to.index-1] = to
}

func (q *deadlineQueue) drop(d *deadline) {
	if d.index != 0 {
		heap.Remove(q, d.index-1)
	}
}

type deadlines struct {
	ends  deadlineQueue // of slots, tickets and sessions: when View.Due returns their keys
	marks deadlineQueue // of free keys: when View.Forget forgets them
}

func (d *deadlines) NextDue() (at Instant, ok bool) {
	for _, q := range [2]deadlineQueue{d.ends, d.marks} {
		if len(q) > 0 && (!ok || q[0].at < at) {
			at, ok = q[0].at, true
		}
	}
	return at, ok
}
