package peer

import (
	"slices"

	"github.com/kvslots/kvslots/kvslots/internal/entry"
	"github.com/kvslots/kvslots/kvslots/internal/rules"
)

// read is an event for which the view must have reached a revision.
type read = event[uint64]

// barrier is something that the stream's leader orders after the moment at which
// it was sent.
type barrier struct {
	stood  uint64 // where the view stood when it was sent
	sent   Instant
	serves []*read
}

// reads are those that wait.
type reads struct {
	p        *Peer
	asked    []*read       // for which no barrier was sent yet
	exact    queue[uint64] // for which the view must be exact
	loose    queue[uint64] // for which it need not
	barrier  *barrier      // that is under way
	coming   int           // barriers that were answered, and that the view has not reached
	previous uint64        // the revision of this peer's last barrier
}

// manyReads is from how many reads without a barrier on those are dropped whose
// callers have their answer.
const manyReads = 1024

// ask calls try when the view is exact and contains all that had happened when
// ask was called. A read whose call is answered before that is dropped.
func (p *Peer) ask(c *call, try func()) {
	p.reads.asked = append(p.reads.asked, &read{call: c, fire: try})
	if len(p.reads.asked) >= manyReads && len(p.reads.asked)&(len(p.reads.asked)-1) == 0 {
		p.reads.asked = slices.DeleteFunc(p.reads.asked, (*read).void)
	}
	p.reads.sendBarrier()
}

// askFrom is like ask, for a revision that the peer was told of: it needs no
// barrier.
func (p *Peer) askFrom(c *call, revision uint64, try func()) {
	p.reads.exact.start(&read{call: c, fire: try}, revision)
	p.reads.wantExact()
}

// whenReached calls do when the view has reached a revision, exact or not.
func (p *Peer) whenReached(revision uint64, do func()) {
	p.reads.loose.start(&read{fire: do}, revision)
}

// whenExact calls do when the view is exact.
func (p *Peer) whenExact(do func()) { p.askFrom(nil, 0, do) }

// wantExact sends a barrier unless the view is exact, or has yet to reach one.
func (q *reads) wantExact() {
	if !q.p.view.Exact() && q.coming == 0 {
		q.sendBarrier()
	}
}

// answer calls those whose time has come. They may ask again.
func (q *reads) answer() {
	q.loose.run(q.p.view.Revision)
	if q.p.view.Exact() {
		q.exact.run(q.p.view.Revision)
	} else if q.exact.Len() > 0 {
		q.wantExact()
	}
}

// sendBarrier sends a barrier unless one is under way.
func (q *reads) sendBarrier() {
	if q.barrier != nil || q.p.closing || q.p.watch.mode != live {
		return
	}
	b := &barrier{stood: q.p.view.Revision, sent: q.p.now, serves: q.asked}
	q.barrier, q.asked = b, nil
	q.p.counters.Barriers++
	view := q.p.view
	q.p.send(q.barrierMessage(), func(a Ack) {
		q.barrier = nil
		switch {
		case q.p.view == view && a.Outcome == Written:
			q.previous = a.Revision
			q.serve(b, a.Revision)
		case q.p.view == view && a.Outcome == Conflict && !q.p.cfg.Replicated && a.Revision != 0:
			q.serve(b, a.Revision)
		default:
			q.asked = append(b.serves, q.asked...)
			q.p.after(notNowPause, q.revive)
		}
	})
}

// serve notes that a barrier stands at a revision.
func (q *reads) serve(b *barrier, revision uint64) {
	view := q.p.view
	q.coming++
	view.Sent(revision+1, b.sent) // on one node the revision was there before
	q.p.whenReached(revision, func() {
		if q.p.view == view {
			q.coming--
			view.Reached(b.stood, q.p.now)
		}
	})
	for _, r := range b.serves {
		q.exact.start(r, revision)
	}
	q.revive()
}

// revive sends another barrier if one is wanted.
func (q *reads) revive() {
	if len(q.asked) > 0 {
		q.sendBarrier()
	} else if q.exact.Len() > 0 {
		q.wantExact()
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
	q.asked = append(q.asked, q.exact.drain()...)
	for _, r := range q.loose.drain() {
		q.loose.start(r, 0)
	}
	q.previous, q.coming = 0, 0
}
