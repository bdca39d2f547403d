package peer

import "github.com/kvslots/kvslots/kvslots/internal/entry"

// evidence is why the stream may not be the one that the view was built from; "" means
// that it may be.
type evidence string

const (
	otherStream  evidence = "the stream was created anew"
	wentBack     evidence = "the stream went back"
	otherEntries evidence = "the stream is not the one that the view was built from"
	lostEntries  evidence = "the stream lacks what the view holds"
	lateView     evidence = "the view was behind for too long" // markers may have expired unseen
	suspicion    evidence = "a key has another revision than in the view"
)

// decide decides what follows from evidence, for every kind of key and nowhere else: the
// view is built anew, at most once in rebuildPause. After a suspicion it is checked first,
// and built anew if the same key is suspected again within that time. Meanwhile the peer
// grants nothing. decide reports whether the evidence has had such a consequence.
func (w *watch) decide(found evidence, key entry.Key) bool {
	switch {
	case found == "", w.mode == loading: // an empty view is of any stream
		return false
	case found == suspicion && w.mode == checking && key != w.p.self.key(): // without its presence the check cannot end
		return false
	case found == suspicion && w.mode == live && key != w.suspect:
		w.suspect = key
		w.p.after(rebuildPause, func() { w.suspect = entry.Key{} })
		w.p.log(Debug, "view checked", string(found))
		w.replace(true)
		return true
	}
	if next := w.rebuilt.Add(rebuildPause); w.rebuilt == 0 || w.p.now >= next {
		w.rebuild(found)
	} else {
		w.number++ // ignore the old watch
		w.mode = checking
		w.retry.fire = func() { w.rebuild(found) }
		w.p.timers.start(&w.retry, next)
	}
	return true
}

// judgeStart compares the state of the stream when a watch begins with the view.
func (w *watch) judgeStart(s StreamInfo) evidence {
	switch {
	case !w.created.IsZero() && !s.Created.Equal(w.created):
		return otherStream
	case !w.p.cfg.Replicated && s.Last < w.floor:
		return wentBack
	}
	return ""
}

// judgeDelivery compares a delivered entry with the view.
func (w *watch) judgeDelivery(e *entry.Entry) evidence {
	switch {
	case w.mode != loading && w.lagged(e.Revision, e.Time):
		return lateView
	case w.mode == checking && !w.checkDelivery(e):
		return otherEntries
	case w.p.own.stamp(e, sameAs(e)) == foreign, e.Revision > w.p.view.Revision && w.contradicts(e):
		return wentBack
	}
	return ""
}

// judgeAnswer compares the answer to a write with the view.
//
// The answers and the watch are two subscriptions, and either may be ahead. So a late
// acknowledgement is consistent, and so is a refusal other than Conflict, or one that names
// a revision which an inexact view may have skipped.
func (w *write) judgeAnswer(a Ack) evidence {
	switch {
	case w.view != w.p.view: // the write was sent under an earlier view
	case a.Outcome == Written:
		if a.Revision <= w.floor {
			return wentBack
		}
	case a.Outcome != Conflict || w.msg.Expect == entry.ExpectNothing:
	case w.msg.Expect == entry.ExpectStream:
		if a.Revision < w.floor {
			return wentBack
		}
	case a.Revision == 0:
		if w.hadEntry {
			return suspicion
		}
	case a.Revision < w.known, w.p.watch.misses(w.msg.Key, a.Revision):
		return suspicion
	}
	return ""
}

// misses reports whether the view has passed a revision of a key and is exact, but holds
// the key below that revision. It may have forgotten a marker that the server has kept: the
// leader's clock was set back.
func (w *watch) misses(key entry.Key, revision uint64) bool {
	view := w.p.view
	latest, _ := view.Latest(key)
	return revision <= view.Revision && view.Exact() && latest < revision
}

// contradicts reports whether an entry overwrote an earlier revision of its key than
// the view holds. The compare-and-swap makes that impossible in the stream that the
// view was built from. An entry names 0 if a marker has expired before, and the
// server's own markers name nothing.
func (w *watch) contradicts(e *entry.Entry) bool {
	latest, taken := w.p.view.Latest(e.Key)
	return e.Previous < latest && (e.Previous != 0 || taken && !e.Marker && e.Corrupt == nil)
}
