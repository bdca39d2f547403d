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

	// doubtTime is how long a claim may be in doubt. Its peer withdraws it much sooner, or not
	// at all.
	doubtTime = Instant(time.Second)

	// garbageTime is how long an entry that means nothing any more is left to the
	// peer that wrote it. After that, any peer purges the entry.
	garbageTime = time.Second
)

// View is one peer's copy of the bucket, with what follows from it. New returns one;
// the zero View is not usable.
type View struct {
	Revision uint64    // the highest sequence applied
	Time     time.Time // its timestamp, by the stream leader's clock

	IdleNames  IdlePools // the idle named pools
	Idle       IdlePools // the other idle pools, if TracksIdle is set
	TracksIdle bool      // set before the first entry is applied
	Live       bool      // the view misses no entry: claims can be judged. See BecomeLive
	loading    bool      // it has never been live
	fenced     uint64    // see Fenced
	passed     Instant   // when this peer sent the last of its messages that the view has reached; 0: none

	sessions
	holders
	deadlines
	totals
	tombstones
	places
	pools   map[entry.Hash]*Pool
	ended   map[entry.Hash]*endedPool
	sets    poolSets
	touched []*Pool
	handed  []*Pool // the slice that Touched returned last
}

// New returns an empty view.
func New() *View {
	return &View{
		loading: true,
		sessions: sessions{
			byID:    map[entry.Hash]*Session{},
			peers:   map[*Session]struct{}{},
			origins: tally{},
		},
		holders:    newHolders(),
		places:     newPlaces(),
		tombstones: tombstones{left: tally{}},
		totals:     totals{by: tally{}},
		pools:      map[entry.Hash]*Pool{},
		ended:      map[entry.Hash]*endedPool{},
	}
}

// Pool returns a pool, or nil if the view knows nothing of it, or only that it has ended.
func (v *View) Pool(id entry.Hash) *Pool { return v.pools[id] }

// EachPool iterates over the pools that the view knows, in no particular order.
func (v *View) EachPool(yield func(*Pool) bool) { maps.Values(v.pools)(yield) }

// Passed records that the view has reached a message that this peer sent at an instant.
// That bounds the age of later entries by this machine's clock alone: they were written
// after that instant. Their timestamps do not help, since a stepped leader's clock looks
// like a late view.
func (v *View) Passed(sent Instant) { v.passed = max(v.passed, sent) }

// Apply applies one entry. It ignores entries at or below Revision. age is how long
// ago the entry was written, as far as the caller knows.
func (v *View) Apply(e *entry.Entry, age time.Duration, now Instant) {
	if e.Revision <= v.Revision {
		return
	}
	v.Time, v.Revision = e.Time, e.Revision
	v.update(e, age, now)
}

// Fenced returns the highest fence that the view knows of any slot, at least 1. A claim names it,
// and has a higher fence, whatever the leader's clock says; a slot's marker passes it on. It does
// not differ by slot: so it outlives the markers of a slot that is not used for a while.
func (v *View) Fenced() uint64 { return max(v.fenced, 1) }

// Found records the revision of a key that has no value, 0 if it has no marker either, as the
// server says: it has dropped a marker earlier than the view, or kept it for longer, since its
// clock was set.
func (v *View) Found(key entry.Key, revision uint64, now Instant) {
	if revision == 0 {
		if r := v.record(key); r != nil && !r.Taken && r.mark.index != 0 {
			v.forgetKey(r)
		}
		return
	}
	v.update(&entry.Entry{Key: key, Revision: revision, Time: v.Time, Marker: true, TTL: MarkerTTL}, 0, now)
}

func (v *View) update(e *entry.Entry, age time.Duration, now Instant) {
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
	v.derive(now)
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
	v.derive(now)
}

// Waits reports whether PassOver must be called as time passes.
func (v *View) Waits() bool { return len(v.sets[hasAble]) > 0 }

// derive recomputes what is derived from the entries, for the touched pools.
func (v *View) derive(now Instant) {
	for i := 0; i < len(v.touched); i++ {
		p := v.touched[i]
		v.scheduleOrphans(p, now)
		p.setIdleQueue(v.idleQueue(p), now)
		v.deriveTotals(p)
		p.refreshAble(now)
		v.sets.put(hasAble, p, len(p.line.able) > 0)
		v.sets.put(hasLine, p, len(p.line.tickets) > 0)
		v.sets.put(isClosing, p, p.Closing())
	}
}

// Touched returns the pools that may have changed since the last call. The slice is
// valid until the next call.
func (v *View) Touched() []*Pool {
	for _, p := range v.handed {
		v.reduce(p)
	}
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

func (v *View) makePool(id entry.Hash) *Pool {
	p := v.pools[id]
	if p == nil {
		p = &Pool{ID: id}
		p.cfg.init(p)
		p.idle.of = &p.cfg
		v.pools[id] = p
		v.restore(p)
	}
	return p
}
