// Package rules decides: which slot is lent, who is next in the line, whether a
// claim is good, and when something has lasted long enough. It is a state
// machine that is fed with the entries of the bucket's stream in their order.
// It does no I/O, starts no goroutine and reads no clock: the time is an
// argument, effects are returned values.
package rules

import (
	"maps"
	"time"

	"github.com/kvslots/kvslots/kvslots/internal/entry"
)

const (
	// StallTime is how long a ticket may let its turn pass before it, and all
	// the others of its peer, are passed over.
	StallTime = time.Second

	// Slack is how much later than its own peer the others end a lease: the
	// peer counts from its answer, the others from the claim's arrival.
	Slack = time.Second

	// doubtTime is how long a claim may be in doubt. Its peer withdraws it
	// much sooner or not at all.
	doubtTime = Instant(time.Second)

	// garbageTime is how long an entry that means nothing any more is left to
	// the peer that wrote it.
	garbageTime = time.Second
)

// World is the state of the bucket as one peer sees it.
//
// The zero value is not ready; use New.
type World struct {
	Revision uint64    // the highest sequence applied
	Time     time.Time // its timestamp, by the stream leader's clock

	sessions
	deadlines
	uses
	pools   map[entry.Hash]*Pool
	gaps    Gaps
	sends   sends
	leader  reading
	doubted poolSet
	open    poolSet
	able    poolSet
	touched []*Pool
	handed  []*Pool // the slice that Touched returned last
}

// New is a world in which nothing has happened yet.
func New() *World {
	return &World{
		sessions: sessions{
			byID:    map[entry.Hash]*Session{},
			peers:   map[*Session]struct{}{},
			origins: map[entry.Hash]int{},
		},
		uses:    uses{closing: poolSet{kind: isClosing}},
		pools:   map[entry.Hash]*Pool{},
		doubted: poolSet{kind: inDoubt},
		open:    poolSet{kind: leftOpen},
		able:    poolSet{kind: hasAble},
	}
}

// Pool is what is known of a pool, or nil.
func (w *World) Pool(id entry.Hash) *Pool { return w.pools[id] }

// EachPool calls yield for every pool of which anything is known, in no order,
// until it returns false.
func (w *World) EachPool(yield func(*Pool) bool) { maps.Values(w.pools)(yield) }

// Exact reports whether the view is exact: see Gaps.
func (w *World) Exact() bool { return w.gaps.Exact() }

// Apply brings the world up to one entry. Entries at or below Revision are
// ignored. now is the time of the call, age how long ago the entry was written,
// as far as the caller can tell.
func (w *World) Apply(e *entry.Entry, age time.Duration, now Instant) {
	if e.Revision <= w.Revision {
		return
	}
	w.Time = e.Time
	w.apply(e, age, now)
	w.leader = reading{e.Time, w.sends.passed}
}

// ApplyOwn brings the world up to a slot's or a ticket's entry that this peer has written, when
// it is acknowledged at the revision that follows the last one applied: all that is
// below has been applied, and what was written is known, but for its timestamp.
// Stamped adds that when the entry is delivered. It returns false, and does nothing,
// while nothing is known of the leader's clock.
func (w *World) ApplyOwn(e *entry.Entry, now Instant) bool {
	if w.leader.after == 0 {
		return false
	}
	e.Time = w.leader.latest(now) // its life ends no later than that says
	w.apply(e, 0, now)
	e.Time = time.Time{}
	return true
}

// Stamped notes the timestamp of an entry that ApplyOwn has applied, and that was
// sent at that time.
func (w *World) Stamped(e *entry.Entry, at time.Time, sent, now Instant) {
	w.Time, w.leader = at, reading{at, sent}
	r := w.record(e.Key)
	if r == nil {
		return
	}
	e.Time = at
	r.life.lengthen(e, e.TTL) // the leader's clock may have been stepped ahead meanwhile
	if r.Revision == e.Revision && r.life.short(e) {
		w.ends.set(&r.due, now.Add(garbageTime))
	}
}

// reading is a time that the leader's clock has shown after an instant; 0: none is
// known.
type reading struct {
	at    time.Time
	after Instant
}

// latest is what the leader's clock shows now at the latest, unless it was stepped.
func (r reading) latest(now Instant) time.Time { return r.at.Add(now.Sub(r.after)) }

func (w *World) apply(e *entry.Entry, age time.Duration, now Instant) {
	if e.Revision > w.Revision+1 {
		w.gaps.Skip(w.Revision+1, e.Revision-1)
	}
	if !w.Exact() {
		w.learn(e)
		w.gaps.Explain(e.Previous)
		w.closeOpen()
	}
	w.Revision = e.Revision
	w.sends.reach(e.Revision)
	switch e.Key.Kind {
	case entry.Config:
		w.applyConfig(e, now, age)
	case entry.Slot:
		w.applySlot(e, now, age)
	case entry.Ticket:
		w.applyTicket(e, now, age)
	case entry.Session:
		w.applySession(e, now, age)
	case entry.Barrier:
		w.heard(e.Key.Session)
	}
	w.settle(now)
}

// learn notes what an entry tells of one that was skipped, and which this one
// overwrote.
func (w *World) learn(e *entry.Entry) {
	if e.Key.Kind == entry.Session {
		w.learnOf(e)
		return
	}
	p := w.pools[e.Key.Pool]
	if p == nil || len(p.open) == 0 {
		return
	}
	held, _ := w.Stands(e.Key)
	p.skipped(held, e.Previous)
}

// closeOpen judges what had to be left open, if the view is exact now.
func (w *World) closeOpen() {
	if !w.Exact() {
		return
	}
	for len(w.open.list) > 0 {
		p := w.open.list[0]
		p.close(w.gaps.Unnamed)
		p.strays = append(p.strays, p.doubted...)
		w.touch(p)
		w.open.put(p, false)
	}
}

// PassOver passes over the peers that have let a turn pass for StallTime.
func (w *World) PassOver(now Instant) {
	for _, p := range w.able.list {
		for _, t := range p.line.able {
			if t.couldSince == 0 || t.Claimed() || t.stalled() || now.Sub(t.couldSince) < StallTime {
				continue
			}
			if t.Value.Enqueued() {
				t.passed = true
				w.touch(p)
				continue
			}
			t.server.stalled = true
			for _, other := range t.server.Tickets {
				w.touch(other.Pool)
			}
		}
	}
	w.settle(now)
}

// Waits reports whether there is something for PassOver and Settle to watch.
func (w *World) Waits() bool { return len(w.able.list) > 0 || len(w.doubted.list) > 0 }

// EachAble calls yield for every pool with a ticket for which there is a permit.
func (w *World) EachAble(yield func(*Pool)) {
	for _, p := range w.able.list {
		yield(p)
	}
}

// Settle judges the claims in doubt again: to be called when time has passed.
func (w *World) Settle(now Instant) {
	for _, p := range w.doubted.list {
		w.touch(p)
	}
	w.settle(now)
}

// Reached notes that the view has reached a barrier that was sent while it
// stood at sent.
func (w *World) Reached(sent uint64, now Instant) {
	w.gaps.Reached(sent)
	w.closeOpen()
	if w.Exact() {
		for _, p := range w.able.list {
			p.clearDoubts(sent)
		}
	}
	w.settle(now)
}

// settle brings what is derived up to date, for the pools that were touched.
func (w *World) settle(now Instant) {
	for i := 0; i < len(w.touched); i++ {
		p := w.touched[i]
		w.settleStrays(p, now)
		p.settle(now)
		w.settleUse(p, now)
		p.refreshAble(now)
		w.doubted.put(p, len(p.doubted) > 0)
		w.able.put(p, len(p.line.able) > 0)
	}
}

// Touched are the pools in which anything may have changed since the last call.
// The slice is good until the next call.
func (w *World) Touched() []*Pool {
	t := w.touched
	for _, p := range t {
		p.touched = false
	}
	w.touched, w.handed = w.handed[:0], t
	return t
}

func (w *World) touch(p *Pool) {
	if !p.touched {
		p.touched = true
		w.touched = append(w.touched, p)
	}
}

func (w *World) pool(id entry.Hash) *Pool {
	p := w.pools[id]
	if p == nil {
		p = &Pool{ID: id}
		p.idle.of, p.cfg.mark.of = p, p
		w.pools[id] = p
	}
	return p
}
