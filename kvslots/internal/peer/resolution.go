package peer

import "github.com/kvslots/kvslots/kvslots/internal/entry"

// resolution is the outcome of a message, as a view that has reached it shows it.
type resolution struct {
	result       result
	revision     uint64 // of the written entry, or of the entry that it was refused for
	learnt       bool   // refused, and the view has learnt of another entry of the key
	mayBeWritten bool   // refused, but an earlier copy may have been written, and skipped by the view
}

// result is the kind of a resolution.
type result uint8

const (
	unknown result = iota // there was no answer in time, or the view was built anew before it had reached it
	written               // the message, or an earlier copy of it, was written
	refused               // the key has another revision
)

// put sends a message, and calls done when the answer is there and the view has
// reached it.
//
// An earlier copy of the same message may have caused a refusal. The view shows that
// if the message has an Author, which is in the entry too.
func (ws *writes) put(m entry.Message, done func(resolution)) *write {
	w := ws.send(m, nil)
	w.settled = done
	if m.Author != 0 {
		ws.authored[m.Author] = w
	}
	return w
}

// resolve calls settled with the outcome when the view has reached its revision.
func (w *write) resolve(a Ack) {
	if a.Outcome != Written && a.Outcome != Conflict {
		w.forgetAuthor()
		w.settled(resolution{})
		return
	}
	w.p.reads.whenReached(a.Revision, func() {
		w.forgetAuthor()
		switch latest, _ := w.p.view.Latest(w.msg.Key); {
		case w.view != w.p.view: // the stream may have lost the message
			w.settled(resolution{})
		case a.Outcome == Written:
			w.settled(resolution{result: written, revision: a.Revision})
		case w.shown != 0:
			w.settled(resolution{result: written, revision: w.shown})
		default:
			if a.Revision == 0 && latest == w.msg.Revision {
				w.p.view.Absent(w.msg.Key)
			}
			w.settled(resolution{result: refused, revision: a.Revision, learnt: latest != w.msg.Revision, mayBeWritten: w.mayHaveLanded()})
		}
	})
}

// forgetAuthor ends the search for the write's entry among those that the view applies.
func (w *write) forgetAuthor() {
	if authored := w.p.writes.authored; authored[w.msg.Author] == w {
		delete(authored, w.msg.Author)
	}
}

// putOnce is put for a message that must take effect only once. It sets Author, so that
// the view shows whether an earlier copy was written.
func (c *call) putOnce(m entry.Message, then func(revision uint64), again func()) *write {
	m.Author = c.p.randomNumber()
	return c.put(m, then, again)
}

// put sends a message for a call. It calls then with the revision if the message was
// written. If it was refused, put calls again when the view shows why, or after a
// pause. Without an answer to the message, the call is answered ErrUnavailable.
func (c *call) put(m entry.Message, then func(revision uint64), again func()) *write {
	return c.p.writes.put(m, func(f resolution) {
		switch f.result {
		case written:
			then(f.revision)
		case refused:
			c.mayBeWritten = c.mayBeWritten || f.mayBeWritten
			switch {
			case !c.isOpen():
			case f.learnt:
				again()
			default:
				c.after(failurePause, again)
			}
		default:
			c.end(ErrUnavailable)
		}
	})
}
