package peer

import (
	"slices"
	"time"

	"github.com/kvslots/kvslots/kvslots/internal/entry"
	"github.com/kvslots/kvslots/kvslots/internal/rules"
)

const (
	// lagLimit is how long a view may go without showing a refresh of this peer's
	// presence. After that, markers may have expired unseen, and the view is built
	// anew. It is also how far the timestamps may jump where the view skips entries.
	lagLimit = rules.MarkerTTL - 20*time.Second

	// unseenLimit is the time without such a refresh after which the watch is replaced.
	unseenLimit = 6 * time.Second

	watchRetry   = 250 * time.Millisecond
	rebuildPause = 10 * time.Second

	// witnessTime is how long a peer that has loaded its view waits for a sign of
	// life of another peer, before it ends leases by the leader's clock.
	witnessTime = presenceRefresh + time.Second

	// skew is how much later leases end that were loaded from a replicated stream:
	// their timestamps may be of another leader's clock.
	skew = 5 * time.Second
)

// mode is the mode of the view.
type mode uint8

const (
	loading  mode = iota // the view lacks entries from before its watch began
	checking             // the stream may not be the one that the view was built from: grant nothing
	live
)

// watch is the delivery of the bucket's entries to this peer, and the view's mode.
type watch struct {
	p            *Peer
	number       uint64
	mode         mode
	created      time.Time // of the stream
	floor        uint64    // the highest sequence that was applied or acknowledged when the watch was ordered
	began        uint64    // the stream's last sequence when the watch was created
	leaderTime   time.Time // the leader's clock then
	beganAt      Instant   // this machine's clock then
	started      bool
	check        check
	rebuilt      Instant                // when the view was last built anew
	skipped      Instant                // when it last skipped entries
	ends         map[entry.Hash]Instant // when leases of the previous view end
	retry        timer
	witnessUntil Instant   // until when heardOther acts on another peer's sign of life
	suspect      entry.Key // see decide
}

// newView begins an empty view. The presence stays: loading shows its tickets, and so
// the places of this peer's borrows in the lines.
func (p *Peer) newView() {
	p.view = rules.New()
	p.view.TracksIdle = p.cfg.PoolIdle > 0
	p.watch.mode = loading
	p.watch.check = check{}
	p.self.revision = 0
	p.own = own{p: p}
	p.reads.restart()
	p.purging = nil
	p.restartBorrows()
	p.writes.sendAgain() // ends the writes that were sent under the previous view
}

func (w *watch) order(from uint64) {
	w.p.timers.stop(&w.retry)
	w.number++
	w.started = false
	// Later acknowledgements do not count: they may be above the stream's last
	// sequence as the server reports it for this watch.
	w.floor = max(w.p.view.Revision, w.p.writes.acked)
	w.p.out.watch = Watch{Number: w.number, From: from}
	w.p.out.ready.Watch = &w.p.out.watch
}

// WatchStarted records that a watch was created. Call it before Apply for that watch.
func (p *Peer) WatchStarted(number uint64, s StreamInfo, now Instant) {
	p.now = now
	if number != p.watch.number || p.closing {
		return
	}
	found := p.watch.judgeStart(s)
	p.watch.created = s.Created
	if !p.watch.decide(found, entry.Key{}) {
		p.watch.started, p.watch.began, p.watch.leaderTime, p.watch.beganAt = true, s.Last, s.Now, now
		p.view.Postpone(now) // no session could be refreshed meanwhile
		p.self.refresh()     // its delivery shows that all entries before it were delivered
	}
	p.advance()
}

// Loading reports whether the view is being loaded. If the caller gives up the watch then,
// the load begins anew, so it must be patient: a large bucket takes long on a slow machine.
func (p *Peer) Loading() bool { return p.watch.mode == loading }

// WatchLost records that a watch delivers no more, or could not be created.
func (p *Peer) WatchLost(number uint64, now Instant) {
	p.now = now
	if number != p.watch.number || p.closing {
		return
	}
	p.watch.replace(p.watch.started)
	p.advance()
}

// replace orders another watch, which begins with the check or a load: now if atOnce is
// set, and otherwise after watchRetry.
func (w *watch) replace(atOnce bool) {
	from := uint64(0)
	if w.mode != loading {
		from = w.beginCheck()
	} else if w.p.view.Revision > 0 {
		w.p.newView() // a partly loaded view is useless
	}
	if atOnce {
		w.order(from)
		return
	}
	w.number++ // ignore the old watch
	w.retry.fire = func() { w.order(from) }
	w.p.timers.start(&w.retry, w.p.now.Add(watchRetry))
}

// Fetched applies an entry that was got directly, while no watch could be created.
// The replica that returned it may be behind, so Fetched ignores entries at or below
// the view's revision.
func (p *Peer) Fetched(number uint64, e entry.Entry, now Instant) {
	p.now = now
	if number != p.watch.number || p.watch.mode == loading || e.Revision <= p.view.Revision {
		return
	}
	p.applied(&e, 0)
	p.advance()
}

// Apply applies an entry that a watch delivered.
func (p *Peer) Apply(number uint64, e entry.Entry, now Instant) {
	p.now = now
	if number != p.watch.number || !p.watch.started || p.closing && e.Key != p.self.key() {
		return
	}
	if p.watch.decide(p.watch.judgeDelivery(&e), e.Key) {
		return
	}
	switch {
	case e.Revision <= p.view.Revision:
	case p.closing: // the view has not reached the revision: it lacks the entries below
		p.self.applied(&e)
	default:
		var age time.Duration
		if p.watch.mode == loading && e.Revision <= p.watch.began { // the others are new
			age = p.watch.ageOf(&e)
		}
		p.applied(&e, age)
	}
	if e.Key == p.self.key() && !e.Marker && e.Revision > p.watch.began && p.watch.mode != live {
		p.watch.caughtUp()
	}
	p.advance()
}

// lagged reports whether a marker may have expired unseen before the view reached an
// entry: by this machine's clock, or by the leader's, which may have been set forward.
func (w *watch) lagged(revision uint64, at time.Time) bool {
	stood, now := w.p.view.Revision, w.p.now
	return now.Sub(w.p.self.seen) > lagLimit ||
		revision > w.p.own.delivered && at.Sub(w.p.view.Time) > lagLimit &&
			(revision > stood+1 || now.Sub(w.skipped) < lagLimit)
}

// ageOf returns how long ago a loaded entry was written.
func (w *watch) ageOf(e *entry.Entry) time.Duration {
	return max(0, w.leaderTime.Sub(e.Time)) + w.p.now.Sub(w.beganAt)
}

// applied applies one entry to the view, and then calls noted.
func (p *Peer) applied(e *entry.Entry, age time.Duration) {
	if e.Revision > p.view.Revision+1 && p.watch.mode != loading {
		p.counters.Skips += e.Revision - p.view.Revision - 1
		p.watch.skipped = p.now
	}
	before := p.holderBefore(e)
	p.view.Apply(e, age, p.now)
	p.noted(e, nil, before)
}

// noted updates this peer's pending work for an entry that was applied. own is the write
// that wrote it, if its delivery is still to come.
func (p *Peer) noted(e *entry.Entry, own *write, before holder) {
	p.watch.check.note(e, own)
	if w := p.writes.authored[e.Author]; w != nil {
		w.shown = e.Revision
	}
	switch e.Key.Kind {
	case entry.Slot:
		p.noteSlot(e, before)
	case entry.Ticket:
		p.noteTicket(e)
	case entry.Session:
		p.self.applied(e)
		p.watch.heardOther(e)
		p.noteSession(e)
		if s := p.view.Session(e.Key.Session); s != nil && e.Marker {
			p.tellFollows(slices.Values(s.Slots))
		}
	case entry.Config:
		delete(p.calls.registering, e.Key.Pool)
		if pool := p.view.Pool(e.Key.Pool); pool != nil {
			p.tellFollows(pool.Slots)
		}
	}
}

// caughtUp ends loading or checking: the view has all entries from before its watch
// began.
func (w *watch) caughtUp() {
	switch {
	case w.mode == loading:
		w.loaded()
	case !w.endCheck():
		// A missing entry may have been overwritten by one that comes after this peer's
		// refresh: await another refresh.
		if w.check.rounds++; w.check.rounds < checkRounds {
			w.began = w.p.view.Revision
			w.p.self.refresh()
			return
		}
		w.decide(lostEntries, entry.Key{})
		return
	default:
		w.p.purgeOrphans()
	}
	w.mode = live
	w.p.writes.sendAgain()
	w.p.reads.revive()
	w.p.becameLive()
}

// loaded sets the ends of sessions and leases when the view is loaded.
func (w *watch) loaded() {
	w.ends = nil
	w.p.view.Postpone(w.p.now)
	if w.p.cfg.Sole && w.rebuilt == 0 {
		w.p.view.EndOthers(w.p.self.id, w.p.now)
	} else {
		w.witnessUntil = w.p.now.Add(witnessTime)
		slack := time.Duration(0)
		if w.p.cfg.Replicated {
			slack = skew
		}
		w.p.view.HoldBack(w.witnessUntil, slack)
	}
	w.p.log(Debug, "view loaded", "")
}

// rebuild drops the view and builds it anew. It keeps the ends of leases, which this peer
// knows better than the stream.
func (w *watch) rebuild(why evidence) {
	w.rebuilt = max(w.p.now, 1)
	w.p.counters.Rebuilds++
	w.p.log(Warn, "view built anew", string(why))
	w.p.watch.keepEnds()
	w.p.writes.acked = 0
	w.p.newView()
	w.order(0)
}

// heardOther handles a sign of life of another peer. If this peer has just loaded its
// view, it restarts the ttl of the loaded leases: the leader's clock may have been stepped
// since they were written, and the other peer knows better when they end.
func (w *watch) heardOther(e *entry.Entry) {
	if w.mode != live || w.p.now >= w.witnessUntil || e.Marker || e.Session.Kind != entry.SessionPeer || e.Key == w.p.self.key() {
		return
	}
	w.witnessUntil = 0
	w.p.view.CountAnew(w.began, w.p.now)
}

func (w *watch) keepEnds() {
	for pool := range w.p.view.EachPool {
		for s := range pool.Slots {
			if s.Value.TTL > 0 {
				put(&w.ends, s.Value.Lease, max(w.ends[s.Value.Lease], s.Ends))
			}
		}
	}
}
