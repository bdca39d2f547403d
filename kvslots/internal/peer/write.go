package peer

import (
	"time"

	"github.com/kvslots/kvslots/kvslots/internal/entry"
	"github.com/kvslots/kvslots/kvslots/internal/rules"
)

const (
	// resendAfter is how long a write may go unanswered before the peer sends the
	// same message again. At most one of the two is written: both expect the same
	// revision.
	resendAfter = 500 * time.Millisecond

	// giveUpAfter is how long a write may go unsettled before its outcome
	// counts as unknown.
	giveUpAfter = 5 * time.Second

	inFlightPause = 5 * time.Millisecond  // after "some write is in flight"
	notNowPause   = 50 * time.Millisecond // after NotNow
	failurePause  = 50 * time.Millisecond // after a refusal that taught the view nothing
)

// write is a message whose outcome is not known yet. It is settled by what the view shows:
//
//   - its own entry, which has its Author: the message was written;
//   - another entry of its key, above the revision that it expects: it was not, and never
//     will be.
//
// No answer settles a write, except one that says that it can never be written: a write may
// have several answers, and may be stored after it was refused, since a deposed leader and a
// new one may both answer one copy. An answer that names a revision only says how far the
// view has to come: see keeper.expect.
type write struct {
	p         *post
	ids       []uint64 // of its copies, except those that were certainly not written
	first     [1]uint64
	order     uint64 // the id of its first copy
	msg       entry.Message
	decidedIn *rules.View // the view that it was decided from
	queue     *writeQueue
	next      *write        // the next pending one of the same key
	sent      bool          // a copy was sent: it has a place in its queue
	begun     Instant       // when it was sent first
	timer     timer         // when it is sent again
	every     time.Duration // how long it may go unanswered before that
	pausing   bool          // it waits to be sent or sent again
	over      bool          // it is settled
	outcome   resolution    // what settled it
	deliver   read          // calls settled when the view is live
	settled   func(*write)  // called once
	under     *underWay     // what it counts for until then; nil: nothing
	claim     bool          // it takes a slot
	again     func()        // called when it is sent again; may be nil
}

// resolution is what has become of a write.
type resolution struct {
	result   result
	revision uint64 // of the entry that settled it; 0: an answer did
	learnt   bool   // refused, and the view has learnt of another entry of the key
	ended    bool   // its own entry ended a lease
	live     bool   // the view was live when that was applied
}

// What is known of a settled write: see resolution.

func (w *write) written() bool    { return w.outcome.result == written }
func (w *write) refused() bool    { return w.outcome.result == refused }
func (w *write) unknown() bool    { return w.outcome.result == unknown }
func (w *write) learnt() bool     { return w.outcome.learnt }
func (w *write) ended() bool      { return w.outcome.ended }
func (w *write) shownLive() bool  { return w.outcome.live }
func (w *write) revision() uint64 { return w.outcome.revision }

// expected returns the revision that the message expects; 0 if the view was built anew since, in which it means
// nothing.
func (w *write) expected() uint64 {
	if w.decidedIn != w.p.view() {
		return 0
	}
	return w.msg.Revision
}

func (w *write) key() entry.Key    { return w.msg.Key }
func (w *write) author() uint64    { return w.msg.Author }
func (w *write) sentAt() Instant   { return w.begun }
func (w *write) isOver() bool      { return w.over }
func (w *write) firstCopy() uint64 { return w.order }

func (w *write) onRepeat(do func()) { w.again = do }

type result uint8

const (
	unknown result = iota // not settled in time, or refused for good, or the view has skipped what would show it
	written
	refused // it was not written, and will not be
)

// begin takes a place in the queue, and notes what is known before the first copy is sent.
func (w *write) begin() {
	w.sent, w.begun = true, w.p.now()
	w.queue.sent++
	if w.msg.Marker && w.key().Kind == entry.Slot {
		w.frees()
	}
}

// transmit sends a copy of the message, or queues the write if it may not be sent now. If the
// view shows already that the server would refuse it, it is not sent.
func (w *write) transmit() {
	latest, _ := w.p.view().Latest(w.key())
	if !w.sent && w.msg.Expect == entry.ExpectRevision && latest > w.msg.Revision {
		w.settle(resolution{result: refused, revision: latest, learnt: true})
		return
	}
	if !w.maySend() {
		w.pausing = true
		w.p.disarm(&w.timer)
		w.queue.waiting = append(w.queue.waiting, w)
		return
	}
	if !w.sent {
		w.begin()
	}
	w.p.last++
	id := w.p.last
	if w.order == 0 {
		w.order = id
	}
	w.ids = append(w.ids, id)
	w.p.pending[id] = w
	w.p.count().Writes++
	if id != w.order { // the earlier copies may have been written
		w.p.count().Resent++
		if w.claim {
			w.countsNoMore()
		}
		if w.again != nil {
			w.again()
		}
	}
	w.pausing = false
	w.p.armFor(&w.timer, w.p.now().Add(w.every), (*unanswered)(w))
	out := w.p.output()
	out.Writes = append(out.Writes, Write{ID: id, Message: w.msg})
}

// repeatEvery sets how long a write may go unanswered from now on before it is sent again.
func (w *write) repeatEvery(d time.Duration) {
	if w.every = d; w.sent && !w.pausing && !w.over {
		w.p.armFor(&w.timer, w.p.now().Add(d), (*unanswered)(w))
	}
}

// repeat sends a write again, or the first time after it has waited. It gives the write
// up after giveUpAfter.
func (w *write) repeat() {
	switch {
	case w.over:
	case w.sent && w.p.now().Sub(w.begun) >= giveUpAfter:
		w.settle(resolution{})
	default:
		w.transmit()
	}
}

func (w *write) answered(id uint64, a Ack) {
	p := w.p
	switch o := a.Outcome; {
	case o == Unknown:
	case p.isStopping() && (o == Written || o == Conflict): // there may be no feed any more
		w.settle(resolution{result: refused, revision: a.Revision})
	case o == Written:
		if a.Revision <= p.view().Revision {
			p.suspect(w.key()) // the view should have shown it
		}
		p.expect(a.Revision)
	case o == Conflict:
		w.conflict(a.Revision)
	case o == InFlight:
		w.retry(inFlightPause)
	case o == NotNow, w.isDiscard(): // Never, too: the server may have space again
		w.drop(id)
		w.retry(notNowPause)
	default:
		w.drop(id)
		w.settle(resolution{})
	}
}

// conflict handles a refusal that names the key's revision, or the stream's last one.
func (w *write) conflict(revision uint64) {
	p := w.p
	latest, taken := p.view().Latest(w.key())
	switch {
	case w.msg.Expect == entry.ExpectStream:
		p.expect(revision) // the read waits for it
		w.settle(resolution{result: refused, revision: revision})
	case revision > p.view().Revision:
		p.expect(revision)
	case !taken && revision != latest && (p.isSuspected(w.key()) || revision == 0 && p.view().MarkerOld(w.key(), p.now())):
		p.view().Found(w.key(), revision, p.now())
		w.settle(resolution{result: refused, learnt: true})
	default: // of a leader that is behind, or of another stream
		p.disagrees(w.key(), revision)
		w.retry(2 * notNowPause)
	}
}

// drop records that a copy was certainly not written.
func (w *write) drop(id uint64) {
	delete(w.p.pending, id)
	w.ids = without(w.ids, id)
}

// retry sends the write again after a pause.
func (w *write) retry(pause time.Duration) {
	if w.over || w.pausing {
		return
	}
	w.pausing = true
	w.p.armFor(&w.timer, w.p.now().Add(pause), (*unanswered)(w))
}

func (w *write) settle(r resolution) {
	if w.over {
		return
	}
	p := w.p
	w.over, w.outcome = true, r
	if w.sent {
		w.queue.sent--
	}
	p.disarm(&w.timer)
	for _, id := range w.ids {
		delete(p.pending, id)
	}
	p.forget(w)
	w.countsNoMore()
	p.unsettled--
	if w.key().Kind != entry.Barrier { // which is counted as a read
		p.count().Wrote.add(p.now().Sub(w.begun))
		if r.result == refused {
			p.count().Conflicts++
		}
	}
	switch {
	case r.revision == 0 && r.result == unknown: // the view need not show anything
		w.tell()
	case w.key() == p.selfKey() && !w.msg.Marker, p.isStopping(): // keeper.join needs it; there may be no live view any more
		w.tell()
	default:
		p.reads.reached.startFor(&w.deliver, 0, (*shownWrite)(w))
	}
}

func (w *write) tell() {
	if w.decidedIn != w.p.view() { // the stream may have lost the entry that settled it
		w.outcome = resolution{}
	}
	if w.settled != nil {
		w.settled(w)
	}
}

// unanswered is a write when it is to be sent again, and shownWrite one whose outcome is to be told.
type (
	unanswered write
	shownWrite write
)

func (w *unanswered) fire() { (*write)(w).repeat() }
func (w *shownWrite) fire() { (*write)(w).tell() }
