package peer

import (
	"time"

	"github.com/kvslots/kvslots/kvslots/internal/entry"
	"github.com/kvslots/kvslots/kvslots/internal/rules"
)

const (
	// lagLimit is how long a view may go without showing a refresh of this peer's
	// presence. If it is then caught up, markers may have come and gone unseen, so it is
	// built anew instead. It is also how far the timestamps may jump in a catch-up.
	lagLimit = rules.MarkerTTL - 20*time.Second

	// unseenLimit is the time without such a refresh after which the view is caught up.
	unseenLimit = 6 * time.Second

	// maxHeld is how many entries of the feed are held during a reading.
	maxHeld = 1 << 14

	// deposedTime is how long a leader may answer that was cut off from the others, until
	// the shell has reconnected to another server.
	deposedTime = 4 * time.Second

	rebuildPause = 10 * time.Second
)

// mode is the mode of the view.
type mode uint8

const (
	loading  mode = iota // the view is being built from the whole stream
	catching             // the view lacks entries, or the stream may not be the one that it was built from
	live                 // the view has every entry up to its revision
)

// stage is how far the latest reading has come.
type stage uint8

const (
	ordered stage = iota // the shell has not begun it
	reading              // it delivers entries, and those of the feed are held
	joined               // the feed goes on where it ended
)

// feed keeps the view up to date. It is live on the feed, which delivers each entry as it
// is written. When entries are missing, a reading delivers those that are in the stream:
// all of them to load the view, and to catch up those from this peer's presence on.
//
// A reading joins the feed when the entries held from the feed begin at or below the entry
// after the last one read. Entries that were overwritten before the reading came to them
// are missing then; but what overwrote them is in the stream, below any entry that is
// written from now on. So the view is live when the feed delivers a presence that this peer
// wrote after the reading had joined.
type feed struct {
	k          *kernel
	number     uint64 // of the latest reading
	mode       mode
	stage      stage
	created    time.Time     // of the stream
	began      uint64        // the stream's last sequence when the reading began
	leaderTime time.Time     // the leader's clock then
	beganAt    Instant       // this machine's clock then
	after      uint64        // the last copy of a write that was sent before the reading began, or before it joined
	read       uint64        // the last sequence that the reading delivered
	quiet      int           // how many times in a row it has delivered nothing for overdue
	held       []entry.Entry // consecutive entries of the feed
	entry      entry.Entry   // the one that was delivered: as a variable, it would be allocated
	breaks     uint64        // how many times entries were missing
	overdue    timer
	awaited    uint64 // the revision that is due when overdue fires
	named      uint64 // the highest revision that an answer named

	check        check
	rebuilt      Instant                // when the view was last built anew
	ends         map[entry.Hash]Instant // when leases of the previous view end
	retry        timer
	witnessUntil Instant               // until when heardOther acts on another peer's sign of life
	suspected    map[entry.Key]Instant // when an answer about the key disagreed with the view first, within rebuildPause: see suspect
}

// order orders a reading.
func (f *feed) order(from uint64) {
	f.k.timers.stop(&f.retry)
	f.number++
	f.stage = ordered
	f.k.out.ready.Reading = &Reading{Number: f.number, From: from}
}

// ReadingStarted records that a reading has begun. Call it before Read for that reading.
func (k *kernel) ReadingStarted(number uint64, s StreamInfo, now Instant) {
	k.now = now
	f := &k.feed
	if number != f.number || f.stage != ordered || k.stopping {
		return
	}
	other := !f.created.IsZero() && !s.Created.Equal(f.created)
	f.created = s.Created
	k.cfg.Replicated = s.Replicas > 1
	if other && f.mode != loading {
		f.contradicted(otherStream)
	} else {
		f.stage, f.began, f.leaderTime, f.beganAt = reading, s.Last, s.Now, now
		f.read, f.quiet, f.held, f.after = 0, 0, f.held[:0], k.writes.last
		f.startOverdue()
		k.view.Postpone(now) // no session could be refreshed meanwhile
		k.self.refresh()
	}
	k.advance()
}

// ReadingLost records that a reading could not begin or was lost, or, after Ready.Joined has
// named it, that entries of the feed are lost.
func (k *kernel) ReadingLost(number uint64, now Instant) {
	k.now = now
	if number != k.feed.number || k.stopping {
		return
	}
	k.feed.catchUp(k.feed.stage != ordered)
	k.advance()
}

// Read applies an entry that a reading delivered. It may skip entries that were overwritten.
func (k *kernel) Read(number uint64, e entry.Entry, now Instant) {
	k.now = now
	f := &k.feed
	if number != f.number || f.stage != reading || k.stopping {
		return
	}
	f.entry = e
	if why := f.judgeRead(&f.entry); why != "" {
		f.contradicted(why)
		k.advance()
		return
	}
	if e.Revision > k.view.Revision {
		var age time.Duration
		if f.mode == loading && e.Revision <= f.began { // the others are new
			age = f.ageOf(&f.entry)
		}
		k.apply(&f.entry, age)
	}
	f.read, f.quiet = max(f.read, e.Revision), 0
	f.join()
	k.advance()
}

// Fed handles the next entry of the feed.
func (k *kernel) Fed(e entry.Entry, now Instant) {
	k.now = now
	f := &k.feed
	f.entry = e
	switch f.stage {
	case reading:
		f.hold(&f.entry)
		f.join()
	case joined:
		f.next(&f.entry)
	}
	k.advance()
}

// hold adds an entry to those that are held, which are consecutive.
func (f *feed) hold(e *entry.Entry) {
	if n := len(f.held); n > 0 {
		first, last := f.held[0].Revision, f.held[n-1].Revision
		switch {
		case e.Revision == last+1:
		case first <= e.Revision && e.Revision <= last && same(&f.held[e.Revision-first], e): // repeated
			return
		default:
			f.held = f.held[:0]
		}
		if len(f.held) == maxHeld { // the reading has to come further
			f.held = f.held[:copy(f.held, f.held[maxHeld/2:])]
		}
	}
	f.held = append(f.held, *e)
}

func same(x, y *entry.Entry) bool {
	return x.Revision == y.Revision && x.Key == y.Key && x.Time.Equal(y.Time)
}

// join ends the reading if it has come to the entries that are held, and to a presence that
// this peer wrote since it began. So whatever was in the stream then has been read, even if
// a replica answers that is behind.
func (f *feed) join() {
	if f.stage != reading || f.k.self.shown <= f.after || len(f.held) == 0 || f.held[0].Revision > f.read+1 {
		return
	}
	f.stage = joined
	f.k.out.ready.Joined = f.number
	f.k.timers.stop(&f.overdue)
	held := f.held
	f.held = nil
	f.after = f.k.writes.last
	f.k.self.refresh()
	for i := range held {
		if f.stage == joined && held[i].Revision > f.k.view.Revision {
			f.next(&held[i])
		}
	}
}

// next applies the next entry of the feed.
func (f *feed) next(e *entry.Entry) {
	k := f.k
	switch {
	case e.Revision <= k.view.Revision:
		if s := f.check.find(e.Revision); s != nil && (s.key != e.Key || !s.at.Equal(e.Time)) {
			f.contradicted(wentBack)
		}
	case e.Revision > k.view.Revision+1:
		if !k.stopping {
			f.catchUp(true)
		}
	case f.mode != loading && f.contradicts(e):
		f.contradicted(wentBack)
	default:
		k.apply(e, 0)
		if f.mode != live && k.self.shown > f.after && !k.stopping {
			f.caughtUp()
		}
	}
}

// apply applies one entry to the view, and updates this peer's pending work.
func (k *kernel) apply(e *entry.Entry, age time.Duration) {
	if e.Revision > k.view.Revision+1 && k.feed.mode != loading {
		k.counters.Skips += e.Revision - k.view.Revision - 1
	}
	delete(k.feed.suspected, e.Key) // the answer was of a leader that was deposed
	before := k.holderBefore(e)
	k.lookBefore(e, k.feed.mode == live)
	k.view.Apply(e, age, k.now)
	k.tell(e)
	k.feed.check.note(e)
	own := k.writes.shown(e, before.live)
	if before.lease != e.Slot.Lease {
		delete(k.untold, before.lease)
	}
	switch e.Key.Kind {
	case entry.Slot:
		if end, known := k.feed.ends[e.Slot.Lease]; known {
			s := k.view.Pool(e.Key.Pool).Slot(e.Key.N)
			k.view.EndAt(s, e.Revision, max(s.Ends, end))
		}
	case entry.Session:
		k.self.applied(e)
		k.feed.heardOther(e)
	}
	k.above.applied(e, before, own)
	if key := e.Key; e.Slot.Untold {
		k.reads.whenLive(func() {
			if s := k.view.Pool(key.Pool).Slot(key.N); s != nil {
				k.purgeUntold(s)
			}
		})
	}
}

// holderBefore returns the holder of a slot before an entry of the slot is applied.
func (k *kernel) holderBefore(e *entry.Entry) (h holder) {
	if e.Key.Kind == entry.Slot {
		if s := k.view.Pool(e.Key.Pool).Slot(e.Key.N); s != nil && s.Taken {
			h = holder{s.Value.Lease, s.Value.Session, s.Live()}
		}
	}
	return h
}
