package peer

import (
	"slices"

	"github.com/kvslots/kvslots/kvslots/internal/entry"
	"github.com/kvslots/kvslots/kvslots/internal/rules"
)

// read is an event that fires when the view has reached a revision.
type read = event[uint64]

// barrier is a message that the stream's leader orders after the moment at which
// it was sent.
type barrier struct {
	viewAt uint64 // the view's revision when it was sent
	sent   Instant
	serves []*read
}

// reads holds the pending reads.
type reads struct {
	p         *Peer
	unsent    []*read            // reads for which no barrier was sent yet
	exact     eventQueue[uint64] // reads for which the view must be exact
	loose     eventQueue[uint64] // reads for which any view will do
	barrier   *barrier           // the unanswered one, if any
	unreached int                // the number of answered barriers that the view has not reached
	previous  uint64             // the revision of this peer's last barrier
}

// manyReads is the number of unsent reads from which on whenCurrent drops void ones.
const manyReads = 1024

// whenCurrent calls try when the view is exact and as new as the call of whenCurrent.
// If c is answered before, it does not call try.
func (q *reads) whenCurrent(c *call, try func()) {
	q.unsent = append(q.unsent, &read{call: c, fire: try})
	if n := len(q.unsent); n >= manyReads && n&(n-1) == 0 {
		q.unsent = slices.DeleteFunc(q.unsent, (*read).void)
	}
	q.sendBarrier()
}

// whenExactAt calls try when the view is exact and has reached the revision of a write of c,
// unless c is answered before. If the view is built anew before, the stream may have lost the
// write, and c is answered ErrUnavailable.
func (q *reads) whenExactAt(c *call, revision uint64, try func()) {
	view := q.p.view
	q.exact.start(&read{call: c, fire: func() {
		if q.p.view != view {
			c.end(ErrUnavailable)
			return
		}
		try()
	}}, revision)
	q.wantExact()
}

// whenReached calls do when the view has reached a revision, exact or not.
func (q *reads) whenReached(revision uint64, do func()) {
	q.loose.start(&read{fire: do}, revision)
}

// whenExact calls do when the view is exact.
func (q *reads) whenExact(do func()) {
	q.exact.start(&read{fire: do}, 0)
	q.wantExact()
}

// wantExact sends a barrier unless the view is exact, or is about to reach one.
func (q *reads) wantExact() {
	if !q.p.view.Exact() && q.unreached == 0 {
		q.sendBarrier()
	}
}

// answer fires the reads for which the view is ready. They may add others.
func (q *reads) answer() {
	q.loose.run(q.p.view.Revision)
	if q.p.view.Exact() {
		q.exact.run(q.p.view.Revision)
	} else if q.exact.Len() > 0 {
		q.wantExact()
	}
}

// sendBarrier sends a barrier unless one is unanswered.
func (q *reads) sendBarrier() {
	if q.barrier != nil || q.p.closing || q.p.watch.mode != live {
		return
	}
	b := &barrier{viewAt: q.p.view.Revision, sent: q.p.now, serves: q.unsent}
	q.barrier, q.unsent = b, nil
	q.p.counters.Barriers++
	view := q.p.view
	q.p.writes.send(q.barrierMessage(), func(a Ack) {
		q.barrier = nil
		switch {
		case q.p.view == view && a.Outcome == Written:
			q.previous = a.Revision
			q.serve(b, a.Revision)
		case q.p.view == view && a.Outcome == Conflict && !q.p.cfg.Replicated && a.Revision != 0:
			q.serve(b, a.Revision)
		default:
			q.unsent = append(b.serves, q.unsent...)
			q.p.after(notNowPause, q.revive)
		}
	})
}

// serve records the revision of a barrier, which its reads wait for.
func (q *reads) serve(b *barrier, revision uint64) {
	view := q.p.view
	q.unreached++
	view.Sent(revision+1, b.sent) // on one node the barrier is no entry: revision is the last one before it
	q.whenReached(revision, func() {
		if q.p.view == view {
			q.unreached--
			q.p.counters.Read.add(q.p.now.Sub(b.sent))
			view.Reached(b.viewAt, q.p.now)
		}
	})
	for _, r := range b.serves {
		q.exact.start(r, revision)
	}
	q.revive()
}

// revive sends another barrier if reads need one.
func (q *reads) revive() {
	if len(q.unsent) > 0 {
		q.sendBarrier()
	} else if q.exact.Len() > 0 {
		q.wantExact()
	}
}

// barrierMessage returns a message that the stream's leader orders with all others.
// On one node it is a write with an impossible condition, whose refusal names the
// last sequence; a replicated stream needs a real write.
func (q *reads) barrierMessage() entry.Message {
	key := entry.Key{Kind: entry.Barrier, Session: q.p.self.id}
	if !q.p.cfg.Replicated {
		return entry.Message{Key: key, Expect: entry.ExpectStream, Revision: 1}
	}
	m := entry.NewMessage(key, entry.BarrierValue{Previous: q.previous}, 0, rules.Guard)
	m.Expect = entry.ExpectNothing
	return m
}

// restart makes all reads wait for a new view. The revisions that they waited for
// mean nothing in it.
func (q *reads) restart() {
	q.unsent = append(q.unsent, q.exact.drain()...)
	for _, r := range q.loose.drain() {
		q.loose.start(r, 0)
	}
	q.previous, q.unreached = 0, 0
}
