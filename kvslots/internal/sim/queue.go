package sim

import "github.com/kvslots/kvslots/kvslots/internal/peer"

// Instant is a reading of the simulation's clock. Each node's peer has a clock of its
// own.
type Instant = peer.Instant

type event struct {
	at  Instant
	seq uint64
	run func()
}

// queue orders events by time, and events of the same time in the order in which they
// were queued. It is a binary heap without the interface calls of container/heap.
type queue struct {
	heap []event
	seq  uint64
}

func (q *queue) add(at Instant, run func()) {
	q.seq++
	q.heap = append(q.heap, event{at, q.seq, run})
	h, i := q.heap, len(q.heap)-1
	for i > 0 {
		parent := (i - 1) / 2
		if !h[i].before(&h[parent]) {
			break
		}
		h[i], h[parent] = h[parent], h[i]
		i = parent
	}
}

func (q *queue) empty() bool { return len(q.heap) == 0 }

// next returns the time of the first event. The queue must not be empty.
func (q *queue) next() Instant { return q.heap[0].at }

// take removes and returns the first event.
func (q *queue) take() event {
	h := q.heap
	first, last := h[0], len(h)-1
	h[0] = h[last]
	h[last] = event{}
	h = h[:last]
	for i := 0; ; {
		least := 2*i + 1
		if least >= last {
			break
		}
		if right := least + 1; right < last && h[right].before(&h[least]) {
			least = right
		}
		if !h[least].before(&h[i]) {
			break
		}
		h[i], h[least] = h[least], h[i]
		i = least
	}
	q.heap = h
	return first
}

func (e *event) before(o *event) bool { return e.at < o.at || e.at == o.at && e.seq < o.seq }
