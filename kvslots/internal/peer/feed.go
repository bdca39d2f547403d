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

// keeper keeps the view up to date. It is live on the feed, which delivers each entry as it
// is written. When entries are missing, a reading delivers those that are in the stream:
// all of them to load the view, and to catch up those from this peer's presence on.
//
// A reading joins the feed when the entries held from the feed begin at or below the entry
// after the last one read. Entries that were overwritten before the reading came to them
// are missing then; but what overwrote them is in the stream, below any entry that is
// written from now on. So the view is live when the feed delivers a presence that this peer
// wrote after the reading had joined.
type keeper struct {
	*post
	host       host
	presence   presence
	number     uint64 // of the latest reading
	mode       mode
	stage      stage
	created    time.Time     // of the stream
	began      uint64        // the stream's last sequence when the reading began
	leaderTime time.Time     // the leader's clock then
	beganAt    Instant       // this machine's clock then
	sentBefore uint64        // the last copy of a write that was sent before the reading began, or before it joined
	readTo     uint64        // the last sequence that the reading delivered
	quiet      int           // how many times in a row it has delivered nothing for overdue
	held       []entry.Entry // consecutive entries of the feed
	entry      entry.Entry   // the one that was delivered: as a variable, it would be allocated
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

func newKeeper(k *kernel, h host) *keeper {
	f := &keeper{host: h}
	f.post, f.presence.k = newPost(k, f), f
	return f
}

// begin begins an empty view, and orders the first reading.
func (f *keeper) begin() {
	f.newView()
	f.order(0)
}

type host interface {
	apply(e *entry.Entry, age time.Duration) // applies an entry to the view, and updates the pending work
	restart()                                // a new view begins, which is empty
	becameLive()                             // the view is live: it was loaded, or is caught up
	presenceLost()                           // the presence is gone, and with it the tickets of this peer
}

func (f *keeper) order(from uint64) {
	f.disarm(&f.retry)
	f.number++
	f.stage = ordered
	f.output().Reading = &Reading{Number: f.number, From: from}
}

// isReading reports whether a number is that of the latest reading, which is at a stage.
func (f *keeper) isReading(number uint64, at stage) bool {
	return number == f.number && f.stage == at && !f.isStopping()
}

func (f *keeper) started(number uint64, s StreamInfo) {
	if !f.isReading(number, ordered) {
		return
	}
	other := !f.created.IsZero() && !s.Created.Equal(f.created)
	f.created = s.Created
	f.settings().Replicated = s.Replicas > 1
	if other && f.mode != loading {
		f.contradicted(otherStream)
		return
	}
	f.stage, f.began, f.leaderTime, f.beganAt = reading, s.Last, s.Now, f.now()
	f.readTo, f.quiet, f.held, f.sentBefore = 0, 0, f.held[:0], f.lastCopy()
	f.startOverdue()
	f.view().Postpone(f.now()) // no session could be refreshed meanwhile
	f.presence.refresh()
}

// lost records that a reading could not begin or was lost, or that entries of the feed are lost.
func (f *keeper) lost(number uint64) {
	if number == f.number && !f.isStopping() {
		f.catchUp(f.stage != ordered)
	}
}

// delivered applies an entry that a reading delivered. It may skip entries that were overwritten.
func (f *keeper) delivered(number uint64, e entry.Entry) {
	if !f.isReading(number, reading) {
		return
	}
	f.entry = e
	if why := f.judgeRead(&f.entry); why != "" {
		f.contradicted(why)
		return
	}
	if e.Revision > f.view().Revision {
		var age time.Duration
		if f.mode == loading && e.Revision <= f.began { // the others are new
			age = f.ageOf(&f.entry)
		}
		f.take(&f.entry, age)
	}
	f.readTo, f.quiet = max(f.readTo, e.Revision), 0
	f.join()
}

// takeFed handles the next entry of the feed.
func (f *keeper) takeFed(e entry.Entry) {
	f.entry = e
	switch f.stage {
	case reading:
		f.hold(&f.entry)
		f.join()
	case joined:
		f.next(&f.entry)
	}
}

// hold adds an entry to those that are held, which are consecutive.
func (f *keeper) hold(e *entry.Entry) {
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
func (f *keeper) join() {
	if f.stage != reading || f.presence.shown <= f.sentBefore || len(f.held) == 0 || f.held[0].Revision > f.readTo+1 {
		return
	}
	f.stage = joined
	f.output().Joined = f.number
	f.disarm(&f.overdue)
	held := f.held
	f.held = nil
	f.sentBefore = f.lastCopy()
	f.presence.refresh()
	for i := range held {
		if f.stage == joined && held[i].Revision > f.view().Revision {
			f.next(&held[i])
		}
	}
}

func (f *keeper) next(e *entry.Entry) {
	switch {
	case e.Revision <= f.view().Revision:
		if _, other := f.check.compare(e); other {
			f.contradicted(wentBack)
		}
	case e.Revision > f.view().Revision+1:
		if !f.isStopping() {
			f.catchUp(true)
		}
	case f.mode != loading && f.contradicts(e):
		f.contradicted(wentBack)
	default:
		f.take(e, 0)
		if f.mode != live && f.presence.shown > f.sentBefore && !f.isStopping() {
			f.caughtUp()
		}
	}
}

func (f *keeper) take(e *entry.Entry, age time.Duration) {
	if e.Revision > f.view().Revision+1 && f.mode != loading {
		f.count().Skips += e.Revision - f.view().Revision - 1
	}
	delete(f.suspected, e.Key) // the answer was of a leader that was deposed
	f.check.note(e)
	f.host.apply(e, age)
}

// applied is called when an entry has been applied, and has settled this peer's writes.
func (f *keeper) applied(e *entry.Entry) {
	switch e.Key.Kind {
	case entry.Slot:
		if end, known := f.ends[e.Slot.Lease]; known {
			s := f.view().Pool(e.Key.Pool).Slot(e.Key.N)
			f.view().EndAt(s, e.Revision, max(s.Ends, end))
		}
	case entry.Session:
		f.presence.applied(e)
		f.heardOther(e)
	}
}

func (f *keeper) isLoading() bool { return f.mode == loading }
