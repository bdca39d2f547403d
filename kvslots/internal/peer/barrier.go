package peer

import (
	"slices"
	"time"

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

// readQueue has the reads that wait for the view.
type readQueue struct {
	unsent   []*read            // reads for which no barrier was sent yet
	reached  alarmQueue[uint64] // reads that wait for a revision
	barrier  *barrier           // the unanswered one, if any
	previous uint64             // the revision of this peer's last barrier
}

// manyReads is the number of unsent reads from which on whenCurrent drops void ones.
const manyReads = 1024

// whenCurrent calls try when the view is live and as new as the call of whenCurrent.
// If c is answered before, it does not call try.
func (p *post) whenCurrent(c *call, try func()) {
	q := &p.reads
	q.unsent = append(q.unsent, alarmOf[uint64](c, try))
	if n := len(q.unsent); n >= manyReads && n&(n-1) == 0 {
		q.unsent = slices.DeleteFunc(q.unsent, (*read).void)
	}
	p.sendBarrier()
}

func (p *post) whenLive(do func()) { p.reads.reached.start(alarmOf[uint64](nil, do), 0) }

// after calls do when d has passed and the view is live, unless the call is answered by then. c may
// be nil.
func (p *post) after(c *call, d time.Duration, do func()) {
	r := alarmOf[uint64](c, do)
	p.arm(alarmOf[Instant](c, nil), p.now().Add(d), func() { p.reads.reached.start(r, 0) })
}

// decide calls step at once if the view is live. If step returns false, or the view is not live, decide calls it
// when the view is live and as new as the call of decide: then current is true, and step decides.
func (p *post) decide(c *call, step func(current bool) (decided bool)) {
	if p.isLive() && step(false) {
		return
	}
	p.whenCurrent(c, func() { step(true) })
}

// fireReads fires the reads for which the view, which is live, is ready. They may add others.
func (p *post) fireReads() { p.reads.reached.run(p.view().Revision) }

// sendBarrier sends a barrier if reads need one and none is unanswered.
func (p *post) sendBarrier() {
	q := &p.reads
	if len(q.unsent) == 0 || q.barrier != nil || p.isStopping() || !p.isLive() {
		return
	}
	b := &barrier{sent: p.now(), serves: q.unsent}
	q.barrier, q.unsent = b, nil
	p.count().Barriers++
	view := p.view()
	p.put(p.barrierMessage(), func(w *write) {
		q.barrier = nil
		if p.view() != view || !w.written() && w.revision() == 0 {
			q.unsent = append(b.serves, q.unsent...)
			p.after(nil, notNowPause, p.sendBarrier)
			return
		}
		if w.written() {
			q.previous = w.revision()
		}
		p.serveReads(b, w.revision())
	})
}

// serveReads records the revision of a barrier, which its reads wait for.
func (p *post) serveReads(b *barrier, revision uint64) {
	view := p.view()
	p.reads.reached.start(alarmOf[uint64](nil, func() {
		if p.view() == view {
			view.Passed(b.sent)
			p.count().Read.add(p.now().Sub(b.sent))
		}
	}), revision)
	for _, r := range b.serves {
		p.reads.reached.start(r, revision)
	}
	p.sendBarrier()
}

// barrierMessage returns a message that the stream's leader orders with all others.
// On one node it is a write with an impossible condition, whose refusal names the
// last sequence; a replicated stream needs a real write.
func (p *post) barrierMessage() entry.Message {
	key := entry.Key{Kind: entry.Barrier, Session: p.self()}
	if !p.settings().Replicated {
		return entry.Message{Key: key, Expect: entry.ExpectStream, Revision: 1}
	}
	m := entry.NewMessage(key, entry.BarrierValue{Previous: p.reads.previous}, 0, rules.Guard)
	m.Expect = entry.ExpectNothing
	return m
}

// restartReads makes all reads wait for a new view. The revisions that they waited for
// mean nothing in it. It returns the writes that the dropped view has settled and whose outcome was not told yet.
func (p *post) restartReads() (untold []*write) {
	q := &p.reads
	for _, r := range q.reached.drain() {
		if w, is := r.action().(*shownWrite); is {
			untold = append(untold, (*write)(w))
		} else {
			q.reached.start(r, 0)
		}
	}
	q.previous = 0
	return untold
}
