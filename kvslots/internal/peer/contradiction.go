package peer

import "github.com/kvslots/kvslots/kvslots/internal/entry"

// The view is of another stream if the stream was deleted and created again, or has lost
// its last writes and gone on from there. What shows that is found at one of these places,
// and has one of two consequences. contradicted builds the view anew. suspect, when only an
// answer disagrees with the view, has the view checked by a catch-up: the answer may be of a
// leader that was deposed.

const (
	otherStream  = "the stream was created anew"
	wentBack     = "the stream went back"
	otherEntries = "the stream is not the one that the view was built from"
	lostEntries  = "the stream lacks what the view holds"
	lateView     = "the view was behind for too long" // markers may have expired unseen
	suspicion    = "a key has another revision than in the view"
)

// contradicted builds the view anew, at most once in rebuildPause. Meanwhile the peer
// grants nothing. An empty view is of any stream.
func (f *keeper) contradicted(why string) {
	if f.mode == loading {
		return
	}
	next := f.rebuilt.Add(rebuildPause)
	if f.rebuilt == 0 || f.now() >= next {
		f.rebuild(why)
		return
	}
	f.ignoreReading()
	f.mode, f.view().Live = catching, false
	f.arm(&f.retry, next, func() { f.rebuild(why) })
}

// disagrees handles a refusal which names another revision of a key than the view holds.
func (f *keeper) disagrees(key entry.Key, revision uint64) {
	if latest, _ := f.view().Latest(key); f.mode == loading && revision < latest { // the stream has lost what was loaded, and would refuse each refresh
		f.catchUp(false)
		return
	}
	f.suspect(key)
}

// suspect handles an answer about a key that disagrees with the view. The view is checked.
// If such answers still come after that, and on a replicated stream for as long as a deposed
// leader may give them, the view is built anew. Without this peer's presence the check cannot
// end, so answers about that count while it lasts.
func (f *keeper) suspect(key entry.Key) {
	since, again := f.suspected[key]
	persists := again && (!f.settings().Replicated || f.now().Sub(since) >= deposedTime)
	if !again && f.mode != loading {
		at := f.now()
		put(&f.suspected, key, at)
		f.arm(&timer{}, at.Add(rebuildPause), func() {
			if f.suspected[key] == at {
				delete(f.suspected, key)
			}
		})
		if f.mode == live {
			f.log(Debug, "view checked", suspicion)
			f.catchUp(true)
			return
		}
	}
	if persists && f.mode == live || key == f.selfKey() && (persists || !f.settings().Replicated) {
		f.contradicted(suspicion)
	}
}

func (f *keeper) isSuspected(key entry.Key) bool {
	_, suspected := f.suspected[key]
	return suspected
}

// judgeRead returns why an entry that a reading delivered contradicts the view, or "".
func (f *keeper) judgeRead(e *entry.Entry) string {
	v := f.view()
	switch {
	case f.mode == loading:
	case f.now().Sub(f.presence.sentAt) > lagLimit, e.Time.Sub(v.Time) > lagLimit:
		return lateView
	case !f.checkDelivery(e):
		return otherEntries
	case e.Revision > v.Revision && f.contradicts(e):
		return wentBack
	}
	return ""
}

// contradicts reports whether an entry overwrote an earlier revision of its key than
// the view holds. The compare-and-swap makes that impossible in the stream that the
// view was built from. Previous is 0 in an entry written after a marker
// has expired, and in the server's own markers.
func (f *keeper) contradicts(e *entry.Entry) bool {
	latest, taken := f.view().Latest(e.Key)
	return e.Previous < latest && (e.Previous != 0 || taken && !e.Marker && e.Corrupt == nil)
}
