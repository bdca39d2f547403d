package peer

import (
	"slices"

	"github.com/kvslots/kvslots/kvslots/internal/entry"
	"github.com/kvslots/kvslots/kvslots/internal/rules"
)

// read is an alarm that fires when the view has reached a revision.
type read = alarm[uint64]

// barrier is a message that the stream's leader orders after the moment at which
// it was sent.
type barrier struct {
	sent   Instant
	serves []*read
}

// reads holds the pending reads.
type reads struct {
	k        *kernel
	unsent   []*read            // reads for which no barrier was sent yet
	reached  alarmQueue[uint64] // reads that wait for a revision
	barrier  *barrier           // the unanswered one, if any
	previous uint64             // the revision of this peer's last barrier
}

// manyReads is the number of unsent reads from which on whenCurrent drops void ones.
const manyReads = 1024

// whenCurrent calls try when the view is live and as new as the call of whenCurrent.
// If c is answered before, it does not call try.
func (q *reads) whenCurrent(c *call, try func()) {
	q.unsent = append(q.unsent, &read{call: c, fire: try})
	if n := len(q.unsent); n >= manyReads && n&(n-1) == 0 {
		q.unsent = slices.DeleteFunc(q.unsent, (*read).void)
	}
	q.sendBarrier()
}

// whenLive calls do when the view is live.
func (q *reads) whenLive(do func()) { q.reached.start(&read{fire: do}, 0) }

// answer fires the reads for which the view is ready. They may add others.
func (q *reads) answer() {
	q.reached.run(q.k.view.Revision)
}

// sendBarrier sends a barrier if reads need one and none is unanswered.
func (q *reads) sendBarrier() {
	if len(q.unsent) == 0 || q.barrier != nil || q.k.stopping || q.k.feed.mode != live {
		return
	}
	b := &barrier{sent: q.k.now, serves: q.unsent}
	q.barrier, q.unsent = b, nil
	q.k.counters.Barriers++
	view := q.k.view
	q.k.writes.put(q.barrierMessage(), func(r resolution) {
		q.barrier = nil
		if q.k.view != view || r.result != written && r.revision == 0 {
			q.unsent = append(b.serves, q.unsent...)
			q.k.after(notNowPause, q.sendBarrier)
			return
		}
		if r.result == written {
			q.previous = r.revision
		}
		q.serve(b, r.revision)
	})
}

// serve records the revision of a barrier, which its reads wait for.
func (q *reads) serve(b *barrier, revision uint64) {
	view := q.k.view
	q.reached.start(&read{fire: func() {
		if q.k.view == view {
			view.Passed(b.sent)
			q.k.counters.Read.add(q.k.now.Sub(b.sent))
		}
	}}, revision)
	for _, r := range b.serves {
		q.reached.start(r, revision)
	}
	q.sendBarrier()
}

// barrierMessage returns a message that the stream's leader orders with all others.
// On one node it is a write with an impossible condition, whose refusal names the
// last sequence; a replicated stream needs a real write.
func (q *reads) barrierMessage() entry.Message {
	key := entry.Key{Kind: entry.Barrier, Session: q.k.self.id}
	if !q.k.cfg.Replicated {
		return entry.Message{Key: key, Expect: entry.ExpectStream, Revision: 1}
	}
	m := entry.NewMessage(key, entry.BarrierValue{Previous: q.previous}, 0, rules.Guard)
	m.Expect = entry.ExpectNothing
	return m
}

// restart makes all reads wait for a new view. The revisions that they waited for
// mean nothing in it.
func (q *reads) restart() {
	for _, r := range q.reached.drain() {
		q.reached.start(r, 0)
	}
	q.previous = 0
}
