package peer

import "time"

const (
	// overdue is how late the feed may deliver a revision that an answer named.
	overdue = 300 * time.Millisecond

	// maxQuiet is how many times in a row a reading may have delivered nothing for overdue. The
	// replica that it reads from may be behind for minutes, and another reading may be of
	// another one.
	maxQuiet = 7

	readingRetry = 50 * time.Millisecond
)

// expect begins a catch-up if the view has not reached a revision in time. An answer to a
// write has named it.
func (f *keeper) expect(revision uint64) {
	if f.named = max(f.named, revision); revision <= f.view().Revision || f.overdue.isSet() {
		return
	}
	f.awaited = f.named
	f.startOverdue()
}

func (f *keeper) startOverdue() {
	f.arm(&f.overdue, f.now().Add(overdue), f.dueNow)
}

// dueNow is called when what is expected is overdue.
func (f *keeper) dueNow() {
	switch {
	case f.isStopping():
	case f.stage == reading:
		if f.quiet++; f.quiet > maxQuiet {
			f.log(Debug, "view is read again", "the reading delivers nothing")
			f.catchUp(true)
			return
		}
		if f.presence.shown > f.sentBefore { // the feed may have lost it
			f.presence.refresh()
		}
		f.startOverdue()
	case f.view().Revision >= f.awaited:
		f.expect(f.named)
	case f.stage == joined:
		f.log(Debug, "view is caught up", "a revision is missing that the stream has")
		f.catchUp(true)
	}
}

// checkSeen begins a catch-up if the view has not shown a refresh of the presence for too long.
func (f *keeper) checkSeen() {
	if f.mode == live && f.now().Sub(f.presence.sentAt) > unseenLimit {
		f.catchUp(true)
	}
}

// catchUp orders a reading: now if atOnce is set, and otherwise after readingRetry.
func (f *keeper) catchUp(atOnce bool) {
	from := uint64(0)
	if f.mode != loading {
		from = f.beginCheck()
	} else if f.view().Revision > 0 {
		f.newView() // a partly loaded view is useless
	}
	if atOnce {
		f.order(from)
		return
	}
	f.ignoreReading()
	f.arm(&f.retry, f.now().Add(readingRetry), func() { f.order(from) })
}

func (f *keeper) ignoreReading() {
	f.number++
	f.stage = ordered
}

// caughtUp makes the view live.
func (f *keeper) caughtUp() {
	switch {
	case f.mode == loading:
		f.loaded()
	case !f.endCheck():
		f.contradicted(lostEntries)
		return
	}
	f.mode = live
	f.view().BecomeLive()
	f.sendAgain()
	f.sendBarrier()
	f.host.becameLive()
}
