package peer

import (
	"maps"
	"slices"
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
// view has to come: see feed.expect.
type write struct {
	k       *kernel
	ids     []uint64 // of its copies, except those that were certainly not written
	first   [1]uint64
	order   uint64 // the id of its first copy
	msg     entry.Message
	view    *rules.View // the view that it was decided from
	queue   *writeQueue
	next    *write           // the next pending one of the same key
	sent    bool             // a copy was sent: it has a place in its queue
	begun   Instant          // when it was sent first
	timer   timer            // when it is sent again
	every   time.Duration    // how long it may go unanswered before that
	pausing bool             // it waits to be sent or sent again
	over    bool             // it is settled
	outcome resolution       // what settled it
	deliver read             // calls settled when the view is live
	settled func(resolution) // called once
	charges []quota          // the caps that it counts for until then
	under   *underWay        // what it counts for until then; nil: nothing
	claim   bool             // it takes a slot
	again   func()           // called when it is sent again; may be nil
}

// resolution is what has become of a write.
type resolution struct {
	result   result
	revision uint64 // of the entry that settled it; 0: an answer did
	learnt   bool   // refused, and the view has learnt of another entry of the key
	ended    bool   // its own entry ended a lease
	live     bool   // the view was live when that was applied
}

// unanswered is a write when it is to be sent again, and shownWrite one whose outcome is to be told.
type (
	unanswered write
	shownWrite write
)

func (w *unanswered) fire() { (*write)(w).repeat() }
func (w *shownWrite) fire() { (*write)(w).tell() }

// result is the kind of a resolution.
type result uint8

const (
	unknown result = iota // not settled in time, or refused for good, or the view has skipped what would show it
	written
	refused // it was not written, and will not be
)

// writes holds the pending writes.
type writes struct {
	k          *kernel
	last       uint64
	pending    map[uint64]*write    // by id
	byKey      map[entry.Key]*write // the latest of each key; write.next are the others
	queues     writeQueues
	refused    string // why the latest write was refused, if not because of its key; "" otherwise
	discarding int    // discards that are not settled
	unsettled  int
	charged    map[quota]int            // what is not settled counts for caps
	underWay   map[entry.Hash]*underWay // by pool
	spare      []*underWay              // memory for underWay
}

// put sends a message, and again while it is not settled. It calls settled once, when the
// view is live and shows what has become of the message.
func (ws *writes) put(m entry.Message, settled func(resolution)) *write {
	return ws.putIn(&ws.queues[m.Key.Kind], m, settled)
}

func (ws *writes) putIn(q *writeQueue, m entry.Message, settled func(resolution)) *write {
	if m.Author == 0 && m.Expect != entry.ExpectStream {
		m.Author = ws.k.randomNumber()
	}
	w := &write{k: ws.k, msg: m, view: ws.k.view, queue: q, begun: ws.k.now, every: resendAfter, settled: settled}
	w.ids, w.timer.of, w.deliver.of = w.first[:0], (*unanswered)(w), (*shownWrite)(w)
	w.next, ws.byKey[m.Key] = ws.byKey[m.Key], w
	ws.unsettled++
	w.transmit()
	return w
}

// begin takes a place in the queue, and notes what is known before the first copy is sent.
func (w *write) begin() {
	k := w.k
	w.sent, w.begun = true, k.now
	w.queue.sent++
	if w.msg.Marker && w.msg.Key.Kind == entry.Slot {
		w.frees()
	}
}

// transmit sends a copy of the message, or queues the write if it may not be sent now. If the
// view shows already that the server would refuse it, it is not sent.
func (w *write) transmit() {
	latest, _ := w.k.view.Latest(w.msg.Key)
	if !w.sent && w.msg.Expect == entry.ExpectRevision && latest > w.msg.Revision {
		w.settle(resolution{result: refused, revision: latest, learnt: true})
		return
	}
	if !w.maySend() {
		w.pausing = true
		w.k.timers.stop(&w.timer)
		w.queue.waiting = append(w.queue.waiting, w)
		return
	}
	if !w.sent {
		w.begin()
	}
	w.k.writes.last++
	id := w.k.writes.last
	if w.order == 0 {
		w.order = id
	}
	w.ids = append(w.ids, id)
	w.k.writes.pending[id] = w
	w.k.counters.Writes++
	if id != w.order { // the earlier copies may have been written
		w.k.counters.Resent++
		if w.claim {
			w.countsNoMore()
		}
		if w.again != nil {
			w.again()
		}
	}
	w.pausing = false
	w.k.timers.start(&w.timer, w.k.now.Add(w.every))
	w.k.out.ready.Writes = append(w.k.out.ready.Writes, Write{ID: id, Message: w.msg})
}

// repeatEvery sets how long a write may go unanswered from now on before it is sent again.
func (w *write) repeatEvery(d time.Duration) {
	if w.every = d; w.sent && !w.pausing && !w.over {
		w.k.timers.start(&w.timer, w.k.now.Add(d))
	}
}

// repeat sends a write again, or the first time after it has waited. It gives the write
// up after giveUpAfter, or if the view was built anew.
func (w *write) repeat() {
	switch {
	case w.over:
	case w.view != w.k.view, w.sent && w.k.now.Sub(w.begun) >= giveUpAfter:
		w.settle(resolution{})
	default:
		w.transmit()
	}
}

// Connected records that the connection is back: the peer sends its unanswered writes
// again.
func (k *kernel) Connected(now Instant) {
	k.now = now
	k.writes.sendAgain()
	k.advance()
}

// sendAgain sends the unanswered writes again, and those that wait, as far as they may
// be sent.
func (ws *writes) sendAgain() {
	waiting := ws.queues.drain()
	for _, id := range slices.Sorted(maps.Keys(ws.pending)) {
		if w := ws.pending[id]; w != nil && !w.over && !w.pausing && w.ids[0] == id {
			w.repeat()
		}
	}
	for _, w := range waiting {
		w.repeat()
	}
}

// Acked handles an answer to a write, however late.
func (k *kernel) Acked(id uint64, a Ack, now Instant) {
	k.now = now
	w := k.writes.pending[id]
	if w == nil {
		return
	}
	if a.Outcome != Unknown {
		k.writes.refused = a.Reason
	}
	w.answered(id, a)
	k.advance()
}

func (w *write) answered(id uint64, a Ack) {
	k := w.k
	switch o := a.Outcome; {
	case o == Unknown, w.view != k.view: // otherwise the stream may have lost it
	case k.stopping && (o == Written || o == Conflict): // there may be no feed any more
		w.settle(resolution{result: refused, revision: a.Revision})
	case o == Written:
		if a.Revision <= k.view.Revision {
			k.feed.suspect(w.msg.Key) // the view should have shown it
		}
		k.feed.expect(a.Revision)
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
	k := w.k
	latest, taken := k.view.Latest(w.msg.Key)
	_, suspected := k.feed.suspected[w.msg.Key]
	switch {
	case w.msg.Expect == entry.ExpectStream:
		k.feed.expect(revision) // the read waits for it
		w.settle(resolution{result: refused, revision: revision})
	case revision > k.view.Revision:
		k.feed.expect(revision)
	case !taken && revision != latest && (suspected || revision == 0 && k.view.MarkerOld(w.msg.Key, k.now)):
		k.view.Found(w.msg.Key, revision, k.now)
		w.settle(resolution{result: refused, learnt: true})
	default: // of a leader that is behind, or of another stream
		k.feed.disagrees(w.msg.Key, revision)
		w.retry(2 * notNowPause)
	}
}

// drop records that a copy was certainly not written.
func (w *write) drop(id uint64) {
	delete(w.k.writes.pending, id)
	w.ids = without(w.ids, id)
}

// retry sends the write again after a pause.
func (w *write) retry(pause time.Duration) {
	if w.over || w.pausing {
		return
	}
	w.pausing = true
	w.k.timers.start(&w.timer, w.k.now.Add(pause))
}

// shown settles the pending writes that an applied entry decides about, and reports whether
// the entry is one of them. endedLease is set if it ended a lease.
func (ws *writes) shown(e *entry.Entry, endedLease bool) (own bool) {
	live := ws.k.feed.mode == live
	for w := ws.byKey[e.Key]; w != nil; {
		next := w.next
		switch expected := w.msg.Revision; {
		case e.Author == w.msg.Author && e.Author != 0:
			ws.refused, own = "", true
			ws.k.view.Passed(w.begun)
			w.settle(resolution{result: written, revision: e.Revision, ended: endedLease, live: live})
		case w.msg.Expect != entry.ExpectRevision, e.Revision <= expected:
		case live, e.Previous <= expected:
			w.settle(resolution{result: refused, revision: e.Revision, learnt: true, live: live})
		default: // the reading has skipped what overwrote the expected revision
			w.settle(resolution{revision: e.Revision})
		}
		w = next
	}
	return own
}

func (w *write) settle(r resolution) {
	if w.over {
		return
	}
	ws := &w.k.writes
	w.over, w.outcome = true, r
	if w.sent {
		w.queue.sent--
	}
	w.k.timers.stop(&w.timer)
	for _, id := range w.ids {
		delete(ws.pending, id)
	}
	ws.forget(w)
	w.countsNoMore()
	w.discharge()
	w.k.wrote(w, r)
	switch {
	case r.revision == 0 && r.result == unknown: // the view need not show anything
		w.tell()
	case w.msg.Key == w.k.self.key() && !w.msg.Marker, w.k.stopping: // feed.join needs it; there may be no live view any more
		w.tell()
	default:
		w.k.reads.reached.start(&w.deliver, 0)
	}
}

func (w *write) tell() {
	r := w.outcome
	if w.view != w.k.view { // the stream may have lost the entry that settled it
		r = resolution{}
	}
	if w.settled != nil {
		w.settled(r)
	}
}

// purges reports whether a purge of that revision of a key has been sent, and is not settled.
func (ws *writes) purges(key entry.Key, revision uint64) bool {
	w := ws.byKey[key]
	return w != nil && w.sent && w.msg.Marker && w.msg.Revision == revision
}

// isWriting reports whether a write of a key is pending.
func (ws *writes) isWriting(key entry.Key) bool { return ws.byKey[key] != nil }

// isWritingOver reports whether a write over that revision of a key is pending.
func (ws *writes) isWritingOver(key entry.Key, revision uint64) bool {
	w := ws.byKey[key]
	for w != nil && w.msg.Revision != revision {
		w = w.next
	}
	return w != nil
}

// forget removes a write from those of its key.
func (ws *writes) forget(w *write) {
	first := ws.byKey[w.msg.Key]
	switch {
	case first == w && w.next == nil:
		delete(ws.byKey, w.msg.Key)
	case first == w:
		ws.byKey[w.msg.Key] = w.next
	default:
		for first.next != w {
			first = first.next
		}
		first.next = w.next
	}
}

// put sends a message for a call. It calls then if the message was written. If it was
// refused, put calls again when the view shows why, or after a pause. Without an answer to
// the message, the call is answered ErrUnavailable.
func (c *call) put(m entry.Message, then func(resolution), again func()) *write {
	return c.k.writes.put(m, func(r resolution) {
		switch {
		case r.result == written:
			then(r)
		case r.result != refused:
			c.end(ErrUnavailable)
		case !c.isOpen():
		case r.learnt:
			again()
		default:
			c.after(failurePause, again)
		}
	})
}
