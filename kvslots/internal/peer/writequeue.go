package peer

import "github.com/kvslots/kvslots/kvslots/internal/entry"

// window is how many writes of a queue may be sent and have no outcome. If the peer sent
// all that its callers want at once, a slow server would get to most of them only after
// resendAfter, and would then have their copies to answer as well.
const window = 256

// writeQueue is a queue of writes, which do not delay those of other queues.
type writeQueue struct {
	sent    int      // writes that were sent and have no outcome
	waiting []*write // to be sent
}

// writeQueues holds a queue for each kind of key, and one for the purges that no caller waits
// for.
type writeQueues [discards + 1]writeQueue

const discards = entry.Barrier + 1

// isDiscard reports whether the write is a purge for which no caller waits. The peer repeats
// it after Never as well: the server may have space again.
func (w *write) isDiscard() bool { return w.queue == &w.p.queues[discards] }

// maySend reports whether a copy of the message may be sent now. While the view is not
// live, the peer only writes its presence: if the stream has lost its tail, another entry
// may have the expected revision, and the compare-and-swap would not protect it.
func (w *write) maySend() bool {
	if w.key() == w.p.selfKey() {
		return true
	}
	return w.p.isLive() && (w.sent || w.queue.sent < window)
}

func (p *post) sendWaiting() {
	for i := range p.queues {
		for l := &p.queues[i]; len(l.waiting) > 0 && l.waiting[0].maySend(); {
			w := l.waiting[0]
			l.waiting[0] = nil
			l.waiting = l.waiting[1:]
			w.repeat()
		}
	}
}

func (ls *writeQueues) drain() []*write {
	var list []*write
	for i := range ls {
		list = append(list, ls[i].waiting...)
		ls[i].waiting = nil
	}
	return list
}
