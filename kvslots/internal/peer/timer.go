package peer

import (
	"container/heap"
	"time"
)

// timer is a place in the deadline queue. The zero timer is not set.
type timer struct {
	at    Instant
	order uint64 // of those that are due at the same instant
	index int    // in the queue, from 1; 0: not in it
	fire  func()
}

// timers is the deadline queue, earliest first.
type timers struct {
	queue []*timer
	set   uint64
}

func (t *timers) Len() int { return len(t.queue) }
func (t *timers) Less(i, j int) bool {
	x, y := t.queue[i], t.queue[j]
	return x.at < y.at || x.at == y.at && x.order < y.order
}
func (t *timers) Swap(i, j int) {
	t.queue[i], t.queue[j] = t.queue[j], t.queue[i]
	t.queue[i].index, t.queue[j].index = i+1, j+1
}

func (t *timers) Push(x any) {
	e := x.(*timer)
	t.queue = append(t.queue, e)
	e.index = len(t.queue)
}

func (t *timers) Pop() any {
	last := len(t.queue) - 1
	e := t.queue[last]
	t.queue[last] = nil
	t.queue = t.queue[:last]
	e.index = 0
	return e
}

// start sets a timer, or sets it anew.
func (t *timers) start(e *timer, at Instant) {
	t.set++
	e.at, e.order = at, t.set
	if e.index == 0 {
		heap.Push(t, e)
	} else {
		heap.Fix(t, e.index-1)
	}
}

func (t *timers) stop(e *timer) {
	if e.index != 0 {
		heap.Remove(t, e.index-1)
	}
}

// run fires what is due.
func (t *timers) run(now Instant) {
	for len(t.queue) > 0 && t.queue[0].at <= now {
		heap.Pop(t).(*timer).fire()
	}
}

// after calls do when d has passed.
func (p *Peer) after(d time.Duration, do func()) { p.timers.start(&timer{fire: do}, p.now.Add(d)) }
