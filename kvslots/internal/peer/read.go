package peer

import (
	"container/heap"

	"github.com/kvslots/kvslots/kvslots/internal/entry"
	"github.com/kvslots/kvslots/kvslots/internal/rules"
)

// read waits until the view is as new as a moment, and exact.
type read struct {
	c        *call  // for which it is, if any: with the call, the read is void
	asked    uint64 // its number: a barrier that is sent later serves it
	revision uint64 // the view must have reached it
	try      func() // called once, when that is so
}

// barrier is something that the stream's leader orders after the moment at which
// it was sent.
type barrier struct {
	stood  uint64 // where the view stood when it was sent
	serves uint64 // the reads with lower numbers
}

// reads are those that wait.
type reads struct {
	p        *Peer
	last     uint64
	asked    []*read  // for which no barrier was answered yet
	exact    readHeap // for which the view must be exact
	loose    readHeap // for which it need not
	whens    []func() // to be called when the view is exact
	barrier  *barrier // that is under way
	coming   int      // barriers that were answered, and that the view has not reached
	previous uint64   // the revision of this peer's last barrier
}

type readHeap []*read

func (h readHeap) Len() int { return len(h) }
func (h readHeap) Less(i, j int) bool {
	return h[i].revision < h[j].revision || h[i].revision == h[j].revision && h[i].asked < h[j].asked
}
func (h readHeap) Swap(i, j int) { h[i], h[j] = h[j], h[i] }
func (h *readHeap) Push(x any)   { *h = append(*h, x.(*read)) }
func (h *readHeap) Pop() any {
	old := *h
	r := old[len(old)-1]
	old[len(old)-1] = nil
	*h = old[:len(old)-1]
	return r
}

// manyReads is from how many reads without a barrier on those are dropped whose
// callers have their answer.
const manyReads = 1024

// ask calls try when the view is exact and contains all that had happened when
// ask was called. A read whose call is answered before that is dropped.
func (p *Peer) ask(c *call, try func()) {
	p.reads.last++
	p.reads.asked = append(p.reads.asked, &read{c: c, asked: p.reads.last, try: try})
	if len(p.reads.asked) >= manyReads && len(p.reads.asked)&(len(p.reads.asked)-1) == 0 {
		p.reads.drop()
	}
	p.reads.sendBarrier()
}

func (q *reads) drop() {
	keep := q.asked[:0]
	for _, r := range q.asked {
		if !r.void() {
			keep = append(keep, r)
		}
	}
	clear(q.asked[len(keep):])
	q.asked = keep
}

func (r *read) void() bool { return r.c != nil && !r.c.isOpen() }

// askFrom is like ask, for a revision that the peer was told of: it needs no
// barrier.
func (p *Peer) askFrom(c *call, revision uint64, try func()) {
	p.reads.last++
	heap.Push(&p.reads.exact, &read{c: c, asked: p.reads.last, revision: revision, try: try})
	p.reads.wantExact()
}

// whenReached calls do when the view has reached a revision, exact or not.
func (p *Peer) whenReached(revision uint64, do func()) {
	p.reads.last++
	heap.Push(&p.reads.loose, &read{asked: p.reads.last, revision: revision, try: do})
}

// whenExact calls do when the view is exact.
func (p *Peer) whenExact(do func()) {
	p.reads.whens = append(p.reads.whens, do)
	p.reads.wantExact()
}

// wantExact sends a barrier unless the view is exact, or has yet to reach one.
func (q *reads) wantExact() {
	if !q.p.world.Exact() && q.coming == 0 {
		q.sendBarrier()
	}
}

// answer calls those whose time has come. They may ask again.
func (q *reads) answer() {
	for len(q.loose) > 0 && q.loose[0].revision <= q.p.world.Revision {
		heap.Pop(&q.loose).(*read).try()
	}
	if !q.p.world.Exact() {
		if len(q.exact) > 0 || len(q.whens) > 0 {
			q.p.reads.wantExact()
		}
		return
	}
	for len(q.whens) > 0 && q.p.world.Exact() {
		whens := q.whens
		q.whens = nil
		for _, do := range whens {
			do()
		}
	}
	for len(q.exact) > 0 && q.exact[0].revision <= q.p.world.Revision {
		if r := heap.Pop(&q.exact).(*read); !r.void() {
			r.try()
		}
	}
}

// sendBarrier sends a barrier unless one is under way.
func (q *reads) sendBarrier() {
	if q.barrier != nil || q.p.closing || q.p.watch.mode != live {
		return
	}
	b := &barrier{stood: q.p.world.Revision, serves: q.last + 1}
	q.barrier = b
	q.p.counters.Barriers++
	world := q.p.world
	q.p.send(q.p.reads.barrierMessage(), func(a Ack) {
		q.barrier = nil
		if q.p.world != world {
			q.p.reads.revive()
			return
		}
		switch {
		case a.Outcome == Written:
			q.previous = a.Revision
			q.p.reads.serve(b, a.Revision)
		case a.Outcome == Conflict && !q.p.cfg.Replicated && a.Revision != 0:
			q.p.reads.serve(b, a.Revision)
		default:
			q.p.after(notNowPause, q.p.reads.revive)
		}
	})
}

// serve notes that a barrier stands at a revision.
func (q *reads) serve(b *barrier, revision uint64) {
	world := q.p.world
	q.coming++
	q.p.whenReached(revision, func() {
		if q.p.world == world {
			q.coming--
			world.Reached(b.stood, q.p.now)
		}
	})
	var later []*read
	for _, r := range q.asked {
		if r.asked >= b.serves {
			later = append(later, r)
			continue
		}
		r.revision = revision
		heap.Push(&q.exact, r)
	}
	q.asked = later
	q.p.reads.revive()
}

// revive sends another barrier if one is wanted.
func (q *reads) revive() {
	if len(q.asked) > 0 {
		q.sendBarrier()
	} else if len(q.exact)+len(q.whens) > 0 {
		q.p.reads.wantExact()
	}
}

// barrierMessage is something that the stream's leader puts in order with
// everything else. On one node an impossible expectation will do, for its
// refusal names the last sequence; a replicated stream needs a write.
func (q *reads) barrierMessage() entry.Message {
	key := entry.Key{Kind: entry.Barrier, Session: q.p.self.id}
	if !q.p.cfg.Replicated {
		return entry.Message{Key: key, Expect: entry.ExpectStream, Revision: 1}
	}
	m := entry.NewMessage(key, entry.BarrierValue{Previous: q.previous}, 0, rules.Guard)
	m.Expect = entry.ExpectNothing
	return m
}

// restart is for a view that is built anew: revisions that were told before
// mean nothing in it.
func (q *reads) restart() {
	for len(q.exact) > 0 {
		q.asked = append(q.asked, heap.Pop(&q.exact).(*read))
	}
	for _, r := range q.loose {
		r.revision = 0
	}
	heap.Init(&q.loose)
	q.previous, q.coming = 0, 0
}
