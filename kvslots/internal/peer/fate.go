package peer

import "github.com/kvslots/kvslots/kvslots/internal/entry"

// fate is what has become of a message, in a view that has reached it.
type fate struct {
	result   result
	revision uint64 // where it was written, or what stands under its key
	learnt   bool   // refused, and the view shows what stands there
	unsure   bool   // refused, and an earlier copy may have been written unseen
}

// result is the essence of a fate.
type result uint8

// The results.
const (
	unknown result = iota // there is no answer, or none that can be believed
	written               // this very message was written: an earlier copy of it, perhaps
	refused               // something else stands under its key
)

// put sends a message, and calls done when its fate is known and the view has
// reached it.
//
// A refusal may be caused by an earlier copy of the same message. The view tells,
// since every entry names the number that its author has drawn for it.
func (p *Peer) put(m entry.Message, done func(fate)) *write {
	w := p.send(m, nil)
	w.told = done
	if m.Author != 0 {
		p.writes.authored[m.Author] = w
	}
	return w
}

// follow waits until the view has reached what a write was answered.
func (w *write) follow(a Ack) {
	if a.Outcome != Written && a.Outcome != Conflict {
		delete(w.p.writes.authored, w.msg.Author)
		w.told(fate{})
		return
	}
	w.p.whenReached(a.Revision, func() {
		delete(w.p.writes.authored, w.msg.Author)
		switch stands, _ := w.p.view.Stands(w.msg.Key); {
		case a.Outcome == Written:
			w.told(fate{result: written, revision: a.Revision})
		case w.shown != 0:
			w.told(fate{result: written, revision: w.shown})
		default:
			if a.Revision == 0 && stands == w.msg.Revision {
				w.p.view.Absent(w.msg.Key)
			}
			w.told(fate{result: refused, revision: a.Revision, learnt: stands != w.msg.Revision, unsure: w.mayHaveLanded()})
		}
	})
}

// putOnce is put for a message that is to have its effect once: with the number by
// which the view tells that an earlier copy was written.
func (c *call) putOnce(m entry.Message, then func(revision uint64), again func()) {
	m.Author = c.p.randomNumber()
	c.put(m, then, again)
}

// put sends a message for a call. then is called, with the revision, when it was
// written; else again, when the view has learnt what stands there instead, or after
// a pause. Without an answer to the message the call is answered ErrUnavailable.
func (c *call) put(m entry.Message, then func(revision uint64), again func()) {
	c.p.put(m, func(f fate) {
		switch f.result {
		case written:
			then(f.revision)
		case refused:
			c.unsure = c.unsure || f.unsure
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
