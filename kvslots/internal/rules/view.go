// Package rules decides which slot is lent, which ticket is next in the line,
// whether a claim is good, and which keys have to be purged. It is a state machine
// whose input is the entries of the bucket's stream, in order. It does no I/O,
// starts no goroutine and reads no clock: the time is an argument, effects are
// returned values.
package rules

import (
	"maps"
	"time"

	"github.com/kvslots/kvslots/kvslots/internal/entry"
)

const (
	// StallTime is how long it may be a ticket's turn without a claim. Then the line
	// passes over the ticket and all others of its peer.
	StallTime = time.Second

	// Slack is how much later than the granting peer the other peers end a lease:
	// that peer counts from its answer, the others from the claim's arrival.
	Slack = time.Second

	// doubtTime is how long a claim may be in doubt. Its peer withdraws it
	// much sooner or not at all.
	doubtTime = Instant(time.Second)

	// garbageTime is how long an entry that means nothing any more is left to the
	// peer that wrote it. After that, any peer purges the entry.
	garbageTime = time.Second
)

// View is one peer's copy of the bucket, with what follows from it. New returns one;
// the zero View is not usable.
type View struct {
	Revision  uint64    // the highest sequence applied
	Time      time.Time // its timestamp, by the stream leader's clock
	timeAfter Instant   // an instant before the leader's clock showed Time; 0: not known

	IdleNames  IdlePools // the idle named pools
	Idle       IdlePools // the other idle pools, if TracksIdle is set
	TracksIdle bool      // set before the first entry is applied

	sessions
	deadlines
	totals
	pools   map[entry.Hash]*Pool
	gaps    Gaps
	sends   sends
	sets    poolSets
	touched []*Pool
	handed  []*Pool // the slice that Touched returned last
}

// New returns an empty view.
func New() *View {
	return &View{
		sessions: sessions{
			byID:    map[entry.Hash]*Session{},
			peers:   map[*Session]struct{}{},
			origins: map[entry.Hash]int{},
		},
		pools: map[entry.Hash]*Pool{},
	}
}

// Pool returns a pool, or nil if the view knows nothing of it.
func (v *View) Pool(id entry.Hash) *Pool { return v.pools[id] }

// EachPool iterates over the pools that the view knows, in no particular order.
func (v *View) EachPool(yield func(*Pool) bool) { maps.Values(v.pools)(yield) }

// Exact reports whether the view is exact: see Gaps.Exact.
func (v *View) Exact() bool { return v.gaps.Exact() }

// Apply applies one entry. It ignores entries at or below Revision. age is how long
// ago the entry was written, as far as the caller knows.
func (v *View) Apply(e *entry.Entry, age time.Duration, now Instant) {
	if e.Revision <= v.Revision {
		return
	}
	v.Time = e.Time
	v.apply(e, age, now)
	v.timeAfter = v.sends.passed
}

// ApplyOwn applies the entry of a slot or a ticket that this peer wrote, before the watch
// delivers it. Its revision must be the one after View.Revision. Stamped adds the
// timestamp after the delivery. ApplyOwn does nothing, and returns false, while the view
// cannot estimate the leader's clock.
func (v *View) ApplyOwn(e *entry.Entry, now Instant) bool {
	if v.timeAfter == 0 {
		return false
	}
	// The latest time that the leader's clock may show now, unless it was stepped, so
	// that the computed life is not too short.
	e.Time = v.Time.Add(now.Sub(v.timeAfter))
	v.apply(e, 0, now)
	e.Time = time.Time{}
	return true
}

// Stamped adds the timestamp at to an entry that ApplyOwn applied, and that this
// peer sent at sent.
func (v *View) Stamped(e *entry.Entry, at time.Time, sent, now Instant) {
	v.Time, v.timeAfter = at, sent
	r := v.record(e.Key)
	if r == nil {
		return
	}
	e.Time = at
	r.life.lengthen(e, e.TTL) // the leader's clock may have been stepped ahead meanwhile
	if r.Revision == e.Revision && r.life.short(e) {
		v.ends.set(&r.due, now.Add(garbageTime))
	}
}

func (v *View) apply(e *entry.Entry, age time.Duration, now Instant) {
	if e.Revision > v.Revision+1 {
		v.gaps.Skip(v.Revision+1, e.Revision-1)
	}
	if !v.Exact() {
		v.learn(e)
		v.gaps.Explain(e.Previous)
		v.judgeOpen()
	}
	v.Revision = e.Revision
	v.sends.reach(e.Revision)
	switch e.Key.Kind {
	case entry.Config:
		v.applyConfig(e, now, age)
	case entry.Slot:
		v.applySlot(e, now, age)
	case entry.Ticket:
		v.applyTicket(e, now, age)
	case entry.Session:
		v.applySession(e, now, age)
	case entry.Barrier:
		v.heard(e.Key.Session)
	}
	v.settle(now)
}

// learn handles an entry that names a skipped entry as the one that it overwrote.
func (v *View) learn(e *entry.Entry) {
	if e.Key.Kind == entry.Session {
		v.learnSession(e)
		return
	}
	p := v.pools[e.Key.Pool]
	if p == nil || len(p.open) == 0 {
		return
	}
	held, _ := v.Stands(e.Key)
	p.skipped(held, e.Previous)
}

// judgeOpen judges the open claims if the view is exact.
func (v *View) judgeOpen() {
	if !v.Exact() {
		return
	}
	for len(v.sets[leftOpen]) > 0 {
		p := v.sets[leftOpen][0]
		p.judgeOpen(v.gaps.Unnamed)
		p.unsettled = append(p.unsettled, p.doubted...)
		v.touch(p)
		v.sets.put(leftOpen, p, false)
	}
}

// PassOver passes over each peer that has not claimed for a ticket within StallTime of
// the ticket's turn, and over each enqueued ticket for which no peer has. It touches every
// pool with a ticket for which there is a permit.
func (v *View) PassOver(now Instant) {
	for _, p := range v.sets[hasAble] {
		v.touch(p)
		for _, t := range p.line.able {
			if t.turnSince == 0 || t.Claimed() || t.stalled() || now.Sub(t.turnSince) < StallTime {
				continue
			}
			if t.Value.Enqueued() {
				t.passed = true
				continue
			}
			t.server.stalled = true
			for _, other := range t.server.Tickets {
				v.touch(other.Pool)
			}
		}
	}
	v.settle(now)
}

// Waits reports whether PassOver and Settle must be called as time passes.
func (v *View) Waits() bool { return len(v.sets[hasAble]) > 0 || len(v.sets[inDoubt]) > 0 }

// Settle ends the doubt about claims that have been in doubt for doubtTime.
func (v *View) Settle(now Instant) {
	for _, p := range v.sets[inDoubt] {
		v.touch(p)
	}
	v.settle(now)
}

// Reached records that the view has reached a barrier. sent is the revision that the
// view had when the barrier was sent.
func (v *View) Reached(sent uint64, now Instant) {
	v.gaps.Reached(sent)
	v.judgeOpen()
	if v.Exact() {
		for _, p := range v.sets[hasAble] {
			p.clearDoubts(sent)
		}
	}
	v.settle(now)
}

// settle recomputes what is derived from the entries, for the touched pools.
func (v *View) settle(now Instant) {
	for i := 0; i < len(v.touched); i++ {
		p := v.touched[i]
		v.scheduleOrphans(p, now)
		p.settle(now)
		p.setIdleQueue(v.idleQueue(p), now)
		v.settleTotals(p)
		p.refreshAble(now)
		v.sets.put(inDoubt, p, len(p.doubted) > 0)
		v.sets.put(hasAble, p, len(p.line.able) > 0)
		v.sets.put(hasLine, p, len(p.line.tickets) > 0)
		v.sets.put(isClosing, p, p.Closing())
	}
}

// Touched returns the pools that may have changed since the last call. The slice is
// valid until the next call.
func (v *View) Touched() []*Pool {
	t := v.touched
	for _, p := range t {
		p.touched = false
	}
	v.touched, v.handed = v.handed[:0], t
	return t
}

func (v *View) touch(p *Pool) {
	if !p.touched {
		p.touched = true
		v.touched = append(v.touched, p)
	}
}

func (v *View) pool(id entry.Hash) *Pool {
	p := v.pools[id]
	if p == nil {
		p = &Pool{ID: id}
		p.cfg.init(p)
		p.idle.of = &p.cfg
		v.pools[id] = p
	}
	return p
}
