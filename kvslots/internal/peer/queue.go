package peer

import (
	"cmp"
	"container/heap"
)

// alarm is a function to be called at an instant, or when the view has reached a
// revision. The zero alarm is in no queue.
type alarm[R cmp.Ordered] struct {
	at    R
	order uint64 // orders alarms with the same at
	index int    // in the queue, from 1; 0: not in it
	call  *call  // may be nil; when the call is answered, the alarm is void
	does  firer
}

// firer is what an alarm does. A call or a write is one itself, since a function would be allocated.
type firer interface{ fire() }

type action func()

func (do action) fire() { do() }

// alarmOf returns an alarm that calls do, unless a call is answered by then; nil: there is none.
func alarmOf[R cmp.Ordered](c *call, do func()) *alarm[R] {
	return &alarm[R]{call: c, does: action(do)}
}

// action returns what it does.
func (e *alarm[R]) action() firer { return e.does }

func (e *alarm[R]) isSet() bool { return e.index != 0 }

// due returns when it fires, if it is set.
func (e *alarm[R]) due() R { return e.at }

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

// startFor is start for an alarm that is to do something else.
func (q *alarmQueue[R]) startFor(e *alarm[R], at R, does firer) {
	e.does = does
	q.start(e, at)
}

// run fires the alarms up to upTo.
func (q *alarmQueue[R]) run(upTo R) {
	for len(q.alarms) > 0 && q.alarms[0].at <= upTo {
		if e := heap.Pop(q).(*alarm[R]); !e.void() {
			e.does.fire()
		}
	}
}

func (q *alarmQueue[R]) drain() []*alarm[R] {
	var list []*alarm[R]
	for len(q.alarms) > 0 {
		list = append(list, heap.Pop(q).(*alarm[R]))
	}
	return list
}

type timer = alarm[Instant]

// arm has do called at an instant. An alarm that is set is moved.
func (k *kernel) arm(e *timer, at Instant, do func()) { k.armFor(e, at, action(do)) }

func (k *kernel) armFor(e *timer, at Instant, does firer) { k.timers.startFor(e, at, does) }

func (k *kernel) disarm(e *timer) { k.timers.stop(e) }

func (k *kernel) ring() { k.timers.run(k.instant) }

func (k *kernel) nextAlarm() (at Instant, ok bool) {
	if k.timers.Len() == 0 {
		return 0, false
	}
	return k.timers.alarms[0].at, true
}
