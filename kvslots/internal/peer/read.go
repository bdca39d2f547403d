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
		p.dropReads()
	}
	p.sendBarrier()
}

func (p *Peer) dropReads() {
	keep := p.reads.asked[:0]
	for _, r := range p.reads.asked {
		if !p.void(r) {
			keep = append(keep, r)
		}
	}
	clear(p.reads.asked[len(keep):])
	p.reads.asked = keep
}

func (p *Peer) void(r *read) bool { return r.c != nil && p.calls.open[r.c.id] != r.c }

// askFrom is like ask, for a revision that the peer was told of: it needs no
// barrier.
func (p *Peer) askFrom(c *call, revision uint64, try func()) {
	p.reads.last++
	heap.Push(&p.reads.exact, &read{c: c, asked: p.reads.last, revision: revision, try: try})
	p.wantExact()
}

// whenReached calls do when the view has reached a revision, exact or not.
func (p *Peer) whenReached(revision uint64, do func()) {
	p.reads.last++
	heap.Push(&p.reads.loose, &read{asked: p.reads.last, revision: revision, try: do})
}

// whenExact calls do when the view is exact.
func (p *Peer) whenExact(do func()) {
	p.reads.whens = append(p.reads.whens, do)
	p.wantExact()
}

// wantExact sends a barrier unless the view is exact, or has yet to reach one.
func (p *Peer) wantExact() {
	if !p.world.Exact() && p.reads.coming == 0 {
		p.sendBarrier()
	}
}

// answerReads calls those whose time has come. They may ask again.
func (p *Peer) answerReads() {
	for len(p.reads.loose) > 0 && p.reads.loose[0].revision <= p.world.Revision {
		heap.Pop(&p.reads.loose).(*read).try()
	}
	if !p.world.Exact() {
		if len(p.reads.exact) > 0 || len(p.reads.whens) > 0 {
			p.wantExact()
		}
		return
	}
	for len(p.reads.whens) > 0 && p.world.Exact() {
		whens := p.reads.whens
		p.reads.whens = nil
		for _, do := range whens {
			do()
		}
	}
	for len(p.reads.exact) > 0 && p.reads.exact[0].revision <= p.world.Revision {
		if r := heap.Pop(&p.reads.exact).(*read); !p.void(r) {
			r.try()
		}
	}
}

// sendBarrier sends a barrier unless one is under way.
func (p *Peer) sendBarrier() {
	if p.reads.barrier != nil || p.closing || p.watch.mode != live {
		return
	}
	b := &barrier{stood: p.world.Revision, serves: p.reads.last + 1}
	p.reads.barrier = b
	p.counters.Barriers++
	world := p.world
	p.send(p.barrierMessage(), func(a Ack) {
		p.reads.barrier = nil
		if p.world != world {
			p.reviveReads()
			return
		}
		switch {
		case a.Outcome == Written:
			p.reads.previous = a.Revision
			p.serveReads(b, a.Revision)
		case a.Outcome == Conflict && !p.cfg.Replicated && a.Revision != 0:
			p.serveReads(b, a.Revision)
		default:
			p.after(notNowPause, p.reviveReads)
		}
	})
}

// serveReads notes that a barrier stands at a revision.
func (p *Peer) serveReads(b *barrier, revision uint64) {
	world := p.world
	p.reads.coming++
	p.whenReached(revision, func() {
		if p.world == world {
			p.reads.coming--
			world.Reached(b.stood, p.now)
		}
	})
	var later []*read
	for _, r := range p.reads.asked {
		if r.asked >= b.serves {
			later = append(later, r)
			continue
		}
		r.revision = revision
		heap.Push(&p.reads.exact, r)
	}
	p.reads.asked = later
	p.reviveReads()
}

// reviveReads sends another barrier if one is wanted.
func (p *Peer) reviveReads() {
	if len(p.reads.asked) > 0 {
		p.sendBarrier()
	} else if len(p.reads.exact)+len(p.reads.whens) > 0 {
		p.wantExact()
	}
}

// barrierMessage is something that the stream's leader puts in order with
// everything else. On one node an impossible expectation will do, for its
// refusal names the last sequence; a replicated stream needs a write.
func (p *Peer) barrierMessage() entry.Message {
	key := entry.Key{Kind: entry.Barrier, Session: p.self.id}
	if !p.cfg.Replicated {
		return entry.Message{Key: key, Expect: entry.ExpectStream, Revision: 1}
	}
	m := entry.NewMessage(key, entry.BarrierValue{Previous: p.reads.previous}, 0, rules.Guard)
	m.Expect = entry.ExpectNothing
	return m
}

// restartReads is for a view that is built anew: revisions that were told before
// mean nothing in it.
func (p *Peer) restartReads() {
	for len(p.reads.exact) > 0 {
		p.reads.asked = append(p.reads.asked, heap.Pop(&p.reads.exact).(*read))
	}
	for _, r := range p.reads.loose {
		r.revision = 0
	}
	heap.Init(&p.reads.loose)
	p.reads.previous, p.reads.coming = 0, 0
}
