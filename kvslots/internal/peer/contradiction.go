package peer

import (
	"github.com/kvslots/kvslots/kvslots/internal/entry"
)

// finding is what the answer to a write says of the view.
type finding uint8

const (
	consistent    finding = iota
	suspicion             // the view may be of a stream that is no more: it has to be checked
	contradiction         // it is
)

// examine looks whether the answer to a write contradicts the view. It is the one
// place where that is decided, for every kind of key; a contradiction is never
// explained away.
//
// A late acknowledgement is no contradiction, nor is a refusal without a revision,
// nor anything about a view that is not exact: that learns nothing from it. The
// answers and the watch are two subscriptions, so that either may be ahead.
func (w *write) examine(a Ack) {
	if w.view != w.p.view || w.p.watch.mode == loading {
		return // it was sent before the view was built anew
	}
	switch w.judgeAnswer(a) {
	case contradiction:
		w.p.watch.rebuild("the stream went back")
	case suspicion:
		w.p.watch.suspectKey(w.msg.Key)
	}
}

func (w *write) judgeAnswer(a Ack) finding {
	switch {
	case a.Outcome == Written && a.Revision <= w.floor:
		return contradiction
	case a.Outcome != Conflict || w.msg.Expect == entry.ExpectNothing:
		return consistent
	case w.msg.Expect == entry.ExpectStream:
		if a.Revision < w.floor {
			return contradiction
		}
		return consistent
	case a.Revision == 0:
		if w.held {
			return suspicion
		}
		return consistent
	case a.Revision < w.known:
		return suspicion
	}
	return w.p.judgeRefusal(w.msg.Key, a.Revision)
}

// contradicts reports whether an entry was written over an earlier revision of its
// key than the one that the view holds. The compare-and-swap says that it was not,
// in the stream of which the view is. Where a marker has gone it names 0, and the
// server's own markers name nothing.
func (w *watch) contradicts(e *entry.Entry) bool {
	stands, taken := w.p.view.Stands(e.Key)
	return e.Previous < stands && (e.Previous != 0 || taken && !e.Marker && e.Corrupt == nil)
}

// judgeRefusal looks at a refusal that names a revision which the view has
// reached: an exact view must hold the key at it, or above.
func (p *Peer) judgeRefusal(key entry.Key, revision uint64) finding {
	holds, _ := p.view.Stands(key)
	switch {
	case revision > p.view.Revision || !p.view.Exact() || holds >= revision:
		return consistent
	case holds == 0 && revision <= p.view.Forgotten:
		return consistent
	}
	return suspicion
}

// suspectKey stops granting, and checks the view. If the key is refused so once
// more after the check has passed, the view is built anew.
func (w *watch) suspectKey(key entry.Key) {
	if w.mode == checking && key != w.p.self.key() {
		return
	}
	if w.suspect == key || w.mode == checking { // without its presence the check cannot end
		w.rebuild("a key is not where the view holds it")
		return
	}
	w.suspect = key
	w.p.after(rebuildPause, func() { w.suspect = entry.Key{} })
	w.p.log(Debug, "view checked", "a key is not where the view holds it")
	w.replace(true)
}
