package peer

import (
	"cmp"
	"container/heap"
	"time"
)

// alarm is a function to be called at an instant, or when the view has reached a
// revision. The zero alarm is in no queue.
type alarm[R cmp.Ordered] struct {
	at    R
	order uint64 // orders alarms with the same at
	index int    // in the queue, from 1; 0: not in it
	call  *call  // may be nil; when the call is answered, the alarm is void
	fire  func()
	of    firer // in place of fire, where a function would be allocated for each call or write
}

type firer interface{ fire() }

func (e *alarm[R]) void() bool { return e.call != nil && !e.call.isOpen() }

// alarmQueue is a queue of alarms, the one with the lowest at first.
type alarmQueue[R cmp.Ordered] struct {
	alarms []*alarm[R]
	last   uint64
}

func (q *alarmQueue[R]) Len() int { return len(q.alarms) }
func (q *alarmQueue[R]) Less(i, j int) bool {
	x, y := q.alarms[i], q.alarms[j]
	return x.at < y.at || x.at == y.at && x.order < y.order
}
func (q *alarmQueue[R]) Swap(i, j int) {
	q.alarms[i], q.alarms[j] = q.alarms[j], q.alarms[i]
	q.alarms[i].index, q.alarms[j].index = i+1, j+1
}

func (q *alarmQueue[R]) Push(x any) {
	e := x.(*alarm[R])
	q.alarms = append(q.alarms, e)
	e.index = len(q.alarms)
}

func (q *alarmQueue[R]) Pop() any {
	last := len(q.alarms) - 1
	e := q.alarms[last]
	q.alarms[last] = nil
	q.alarms = q.alarms[:last]
	e.index = 0
	return e
}

// start adds an alarm to the queue, or moves it.
func (q *alarmQueue[R]) start(e *alarm[R], at R) {
	q.last++
	e.at, e.order = at, q.last
	if e.index == 0 {
		heap.Push(q, e)
	} else {
		heap.Fix(q, e.index-1)
	}
}

func (q *alarmQueue[R]) stop(e *alarm[R]) {
	if e.index != 0 {
		heap.Remove(q, e.index-1)
	}
}

// run fires the alarms up to upTo.
func (q *alarmQueue[R]) run(upTo R) {
	for len(q.alarms) > 0 && q.alarms[0].at <= upTo {
		if e := heap.Pop(q).(*alarm[R]); !e.void() {
			if e.of != nil {
				e.of.fire()
			} else {
				e.fire()
			}
		}
	}
}

// drain removes all alarms and returns them in order.
func (q *alarmQueue[R]) drain() []*alarm[R] {
	var list []*alarm[R]
	for len(q.alarms) > 0 {
		list = append(list, heap.Pop(q).(*alarm[R]))
	}
	return list
}

type timer = alarm[Instant]

// after calls do when d has passed and the view is live.
func (k *kernel) after(d time.Duration, do func()) { k.later(d, &read{fire: do}) }

// after calls do when d has passed and the view is live, unless the call is answered by then.
func (c *call) after(d time.Duration, do func()) { c.k.later(d, &read{call: c, fire: do}) }

func (k *kernel) later(d time.Duration, r *read) {
	k.timers.start(&timer{call: r.call, fire: func() { k.reads.reached.start(r, 0) }}, k.now.Add(d))
}
