package peer

import (
	"cmp"
	"container/heap"
	"time"
)

// event is a function to be called at an instant, or when the view has reached a
// revision. The zero event is in no queue.
type event[R cmp.Ordered] struct {
	at    R
	order uint64 // orders events with the same at
	index int    // in the queue, from 1; 0: not in it
	call  *call  // may be nil; when the call is answered, the event is void
	fire  func()
	of    firer // in place of fire, where a function would be allocated for each call or write
}

type firer interface{ fire() }

func (e *event[R]) void() bool { return e.call != nil && !e.call.isOpen() }

// queue is a queue of events, the one with the lowest at first.
type eventQueue[R cmp.Ordered] struct {
	events []*event[R]
	last   uint64
}

func (q *eventQueue[R]) Len() int { return len(q.events) }
func (q *eventQueue[R]) Less(i, j int) bool {
	x, y := q.events[i], q.events[j]
	return x.at < y.at || x.at == y.at && x.order < y.order
}
func (q *eventQueue[R]) Swap(i, j int) {
	q.events[i], q.events[j] = q.events[j], q.events[i]
	q.events[i].index, q.events[j].index = i+1, j+1
}

func (q *eventQueue[R]) Push(x any) {
	e := x.(*event[R])
	q.events = append(q.events, e)
	e.index = len(q.events)
}

func (q *eventQueue[R]) Pop() any {
	last := len(q.events) - 1
	e := q.events[last]
	q.events[last] = nil
	q.events = q.events[:last]
	e.index = 0
	return e
}

// start adds an event to the queue, or moves it.
func (q *eventQueue[R]) start(e *event[R], at R) {
	q.last++
	e.at, e.order = at, q.last
	if e.index == 0 {
		heap.Push(q, e)
	} else {
		heap.Fix(q, e.index-1)
	}
}

func (q *eventQueue[R]) stop(e *event[R]) {
	if e.index != 0 {
		heap.Remove(q, e.index-1)
	}
}

// run fires the events up to upTo.
func (q *eventQueue[R]) run(upTo R) {
	for len(q.events) > 0 && q.events[0].at <= upTo {
		if e := heap.Pop(q).(*event[R]); !e.void() {
			if e.of != nil {
				e.of.fire()
			} else {
				e.fire()
			}
		}
	}
}

// drain removes all events and returns them in order.
func (q *eventQueue[R]) drain() []*event[R] {
	var list []*event[R]
	for len(q.events) > 0 {
		list = append(list, heap.Pop(q).(*event[R]))
	}
	return list
}

type timer = event[Instant]

// after calls do when d has passed and the view is live.
func (k *kernel) after(d time.Duration, do func()) { k.later(d, &read{fire: do}) }

// after calls do when d has passed and the view is live, unless the call is answered by then.
func (c *call) after(d time.Duration, do func()) { c.k.later(d, &read{call: c, fire: do}) }

func (k *kernel) later(d time.Duration, r *read) {
	k.timers.start(&timer{call: r.call, fire: func() { k.reads.reached.start(r, 0) }}, k.now.Add(d))
}
