package peer

import (
	"cmp"
	"maps"
	"slices"

	"github.com/kvslots/kvslots/kvslots/internal/entry"
)

// post writes messages. It says what has become of each when the view shows it, and when the view is
// as new as a call.
type post struct {
	*kernel
	viewKeeper
	reads         readQueue
	last          uint64               // the id of the last copy
	pending       map[uint64]*write    // by id
	byKey         map[entry.Key]*write // the latest of each key; write.next are the others
	queues        writeQueues
	refused       string // why the latest write was refused, if not because of its key; "" otherwise
	discarding    int    // discards that are not settled
	unsettled     int
	underWay      map[entry.Hash]*underWay // by pool
	disowned      map[uint64]Instant       // until when, by author: see write.disown
	disownedSweep timer
	spare         []*underWay // memory for underWay
}

// viewKeeper is what the post needs of the room that keeps the view.
type viewKeeper interface {
	self() entry.Hash // this peer's presence
	selfKey() entry.Key
	expect(revision uint64)                   // an answer has named a revision
	suspect(key entry.Key)                    // an answer about a key disagrees with the view
	disagrees(key entry.Key, revision uint64) // so does a refusal, which names another revision
	isSuspected(key entry.Key) bool           // an earlier answer about the key did
}

func newPost(k *kernel, keeper viewKeeper) *post {
	return &post{kernel: k, viewKeeper: keeper, byKey: map[entry.Key]*write{}, pending: map[uint64]*write{}}
}

// put sends a message, and again while it is not settled. It calls settled once, when the
// view is live and shows what has become of the message.
func (p *post) put(m entry.Message, settled func(*write)) *write {
	return p.putIn(&p.queues[m.Key.Kind], m, settled)
}

func (p *post) putIn(q *writeQueue, m entry.Message, settled func(*write)) *write {
	if m.Author == 0 && m.Expect != entry.ExpectStream {
		m.Author = p.randomNumber()
	}
	w := &write{p: p, msg: m, decidedIn: p.view(), queue: q, begun: p.now(), every: resendAfter, settled: settled}
	w.ids = w.first[:0]
	w.next, p.byKey[m.Key] = p.byKey[m.Key], w
	p.unsettled++
	w.transmit()
	return w
}

// sendAgain sends the unanswered writes again, and those that wait, as far as they may
// be sent.
func (p *post) sendAgain() {
	waiting := p.queues.drain()
	for _, id := range slices.Sorted(maps.Keys(p.pending)) {
		if w := p.pending[id]; w != nil && !w.over && !w.pausing && w.ids[0] == id {
			w.repeat()
		}
	}
	for _, w := range waiting {
		w.repeat()
	}
}

// dropWrites gives up the writes that were decided from a view which is gone, and those that it has settled
// and whose outcome was not told yet: the stream may have lost them.
func (p *post) dropWrites(untold []*write) {
	p.queues.drain()
	var open []*write
	for _, w := range p.byKey {
		for ; w != nil; w = w.next {
			open = append(open, w)
		}
	}
	slices.SortFunc(open, func(x, y *write) int { return cmp.Compare(x.author(), y.author()) })
	for _, w := range open {
		w.settle(resolution{})
	}
	for _, w := range untold {
		w.tell()
	}
}

// noteAck handles an answer to a write, however late. It reports whether the write was pending.
func (p *post) noteAck(id uint64, a Ack) bool {
	w := p.pending[id]
	if w == nil {
		return false
	}
	if a.Outcome != Unknown {
		p.refused = a.Reason
	}
	w.answered(id, a)
	return true
}

// shown settles the pending writes that an applied entry decides about. endedLease is set if it ended a
// lease.
func (p *post) shown(e *entry.Entry, endedLease bool) {
	live := p.isLive()
	for w := p.byKey[e.Key]; w != nil; {
		next := w.next
		switch expected := w.msg.Revision; {
		case e.Author == w.author() && e.Author != 0:
			p.refused = ""
			p.view().Passed(w.begun)
			w.settle(resolution{result: written, revision: e.Revision, ended: endedLease, live: live})
		case w.msg.Expect != entry.ExpectRevision, e.Revision <= expected:
		case live, e.Previous <= expected:
			w.settle(resolution{result: refused, revision: e.Revision, learnt: true, live: live})
		default: // the reading has skipped what overwrote the expected revision
			w.settle(resolution{revision: e.Revision})
		}
		w = next
	}
}

// isPurging reports whether a purge of that revision of a key has been sent, and is not settled.
func (p *post) isPurging(key entry.Key, revision uint64) bool {
	w := p.byKey[key]
	return w != nil && w.sent && w.msg.Marker && w.msg.Revision == revision
}

func (p *post) isWriting(key entry.Key) bool { return p.byKey[key] != nil }

// isWritingOver reports whether a write over that revision of a key is pending.
func (p *post) isWritingOver(key entry.Key, revision uint64) bool {
	w := p.byKey[key]
	for w != nil && w.msg.Revision != revision {
		w = w.next
	}
	return w != nil
}

func (p *post) forget(w *write) {
	first := p.byKey[w.key()]
	switch {
	case first == w && w.next == nil:
		delete(p.byKey, w.key())
	case first == w:
		p.byKey[w.key()] = w.next
	default:
		for first.next != w {
			first = first.next
		}
		first.next = w.next
	}
}

// refusal returns why the latest write was refused, if not because of its key, or "".
func (p *post) refusal() string { return p.refused }

// countUnsettled returns how many writes have no outcome, and how many of them are discards.
func (p *post) countUnsettled() (all, discards int) { return p.unsettled, p.discarding }

// lastCopy returns the number of the last copy of a write that was sent: see write.firstCopy.
func (p *post) lastCopy() uint64 { return p.last }

// putFor sends a message for a call. It calls then if the message was written. If it was
// refused, putFor calls again when the view shows why, or after a pause. Without an answer to
// the message, the call is answered ErrUnavailable.
func (p *post) putFor(c *call, m entry.Message, then func(*write), again func()) *write {
	return p.put(m, func(w *write) {
		switch {
		case w.written():
			then(w)
		case !w.refused():
			c.end(ErrUnavailable)
		case !c.isOpen():
		case w.learnt():
			again()
		default:
			p.after(c, failurePause, again)
		}
	})
}
