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
func (f *feed) expect(revision uint64) {
	if f.named = max(f.named, revision); revision <= f.k.view.Revision || f.overdue.index != 0 {
		return
	}
	f.awaited = f.named
	f.startOverdue()
}

func (f *feed) startOverdue() {
	f.overdue.fire = f.dueNow
	f.k.timers.start(&f.overdue, f.k.now.Add(overdue))
}

// dueNow is called when what is expected is overdue.
func (f *feed) dueNow() {
	switch {
	case f.k.stopping:
	case f.stage == reading:
		if f.quiet++; f.quiet > maxQuiet {
			f.k.log(Debug, "view is read again", "the reading delivers nothing")
			f.catchUp(true)
			return
		}
		if f.k.self.shown > f.after { // the feed may have lost it
			f.k.self.refresh()
		}
		f.startOverdue()
	case f.k.view.Revision >= f.awaited:
		f.expect(f.named)
	case f.stage == joined:
		f.k.log(Debug, "view is caught up", "a revision is missing that the stream has")
		f.catchUp(true)
	}
}

// checkSeen begins a catch-up if the view has not shown a refresh of the presence for too long.
func (f *feed) checkSeen() {
	if f.mode == live && f.k.now.Sub(f.k.self.sentAt) > unseenLimit {
		f.catchUp(true)
	}
}

// catchUp orders a reading: now if atOnce is set, and otherwise after readingRetry.
func (f *feed) catchUp(atOnce bool) {
	from := uint64(0)
	if f.mode != loading {
		from = f.beginCheck()
	} else if f.k.view.Revision > 0 {
		f.k.newView() // a partly loaded view is useless
	}
	if atOnce {
		f.order(from)
		return
	}
	f.ignoreReading()
	f.retry.fire = func() { f.order(from) }
	f.k.timers.start(&f.retry, f.k.now.Add(readingRetry))
}

func (f *feed) ignoreReading() {
	f.number++
	f.stage = ordered
}

// caughtUp makes the view live.
func (f *feed) caughtUp() {
	switch {
	case f.mode == loading:
		f.loaded()
	case !f.endCheck():
		f.contradicted(lostEntries)
		return
	}
	f.mode = live
	f.k.view.BecomeLive()
	f.k.writes.sendAgain()
	f.k.reads.sendBarrier()
	f.k.above.becameLive()
}
