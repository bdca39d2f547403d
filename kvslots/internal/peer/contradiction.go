package peer

import (
	"github.com/kvslots/kvslots/kvslots/internal/entry"
)

// finding is the result of comparing the answer to a write with the view.
type finding uint8

const (
	consistent    finding = iota
	suspicion             // the stream may not be the one that the view was built from: check the view
	contradiction         // it is not
)

// examine compares the answer to a write with the view, and checks the view or builds
// it anew if they do not agree. Every kind of key is examined here and nowhere else.
//
// The answers and the watch are two subscriptions, and either may be ahead. So a late
// acknowledgement is consistent, and so is a refusal without a revision, or any refusal
// of a write to a key that a view which is not exact may not know.
func (w *write) examine(a Ack) {
	if w.view != w.p.view || w.p.watch.mode == loading {
		return // the write was sent under an earlier view
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
	return w.judgeRefusal(a.Revision)
}

// contradicts reports whether an entry overwrote an earlier revision of its key than
// the view holds. The compare-and-swap makes that impossible in the stream that the
// view was built from. An entry names 0 if a marker has expired before, and the
// server's own markers name nothing.
func (w *watch) contradicts(e *entry.Entry) bool {
	stands, taken := w.p.view.Stands(e.Key)
	return e.Previous < stands && (e.Previous != 0 || taken && !e.Marker && e.Corrupt == nil)
}

// judgeRefusal examines a refusal that names a revision. An exact view that has reached
// the revision must hold the key at that revision, or above.
func (w *write) judgeRefusal(revision uint64) finding {
	view := w.p.view
	holds, _ := view.Stands(w.msg.Key)
	switch {
	case revision > view.Revision || !view.Exact() || holds >= revision:
		return consistent
	case holds == 0 && revision <= view.Forgotten:
		return consistent
	}
	return suspicion
}

// suspectKey stops granting, and checks the view. If the same key is suspected again
// within rebuildPause, suspectKey builds the view anew.
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
