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
	found []DueKey // the slice that Due returned last
	totals
	tombstones
	places
	pools   map[entry.Hash]*Pool
	ended   map[entry.Hash]*endedPool
	sets    poolSets
	touched []*Pool
	handed  []*Pool // the slice that Touched returned last
}

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
		totals:     totals{by: tally{}, titled: map[string]poolSet{}},
		pools:      map[entry.Hash]*Pool{},
		ended:      map[entry.Hash]*endedPool{},
	}
}

// Pool returns a pool, or nil if the view knows nothing of it, or only that it has ended.
func (v *View) Pool(id entry.Hash) *Pool { return v.pools[id] }

// Uses reports whether a holder uses a name: see holders. pool may be nil.
func (v *View) Uses(holder entry.Hash, pool *Pool) bool {
	return pool != nil && v.entries[holding{holder, pool.ID}] > 0
}

// EachPool iterates over the pools that the view knows, in no particular order.
func (v *View) EachPool(yield func(*Pool) bool) { maps.Values(v.pools)(yield) }

// Passed records that the view has reached a message that this peer sent at an instant.
// That bounds the age of later entries by this machine's clock alone: they were written
// after that instant. Their timestamps do not help, since a stepped leader's clock looks
// like a late view.
func (v *View) Passed(sent Instant) { v.passed = max(v.passed, sent) }

// Fenced returns the highest fence that the view knows of any slot, at least 1. A claim names it,
// and has a higher fence, whatever the leader's clock says; a slot's marker passes it on. It does
// not differ by slot: so it outlives the markers of a slot that is not used for a while.
func (v *View) Fenced() uint64 { return max(v.fenced, 1) }

// Waits reports whether PassOver must be called as time passes.
func (v *View) Waits() bool { return len(v.sets[hasAble]) > 0 }

func (v *View) touch(p *Pool) {
	if !p.touched {
		p.touched = true
		v.touched = append(v.touched, p)
	}
}

func (v *View) record(key entry.Key) *record {
	if key.Kind == entry.Session {
		if s := v.byID[key.Session]; s != nil {
			return &s.record
		}
		return nil
	}
	p := v.pools[key.Pool]
	if p == nil {
		if ended := v.ended[key.Pool]; ended != nil && key.Kind == entry.Config {
			return &ended.cfg
		}
		return nil
	}
	switch key.Kind {
	case entry.Config:
		return &p.cfg
	case entry.Slot:
		if s := p.Slot(key.N); s != nil {
			return &s.record
		}
	case entry.Ticket:
		if t := p.line.byKey[key]; t != nil {
			return &t.record
		}
	}
	return nil
}

// Latest returns the revision of a key's last entry, and whether that is a value. The
// revision is 0 for a forgotten marker and for a barrier.
func (v *View) Latest(key entry.Key) (revision uint64, taken bool) {
	if r := v.record(key); r != nil {
		return r.Revision, r.Taken
	}
	return 0, false
}

// MarkerOld reports whether the marker of a free key may have expired in the stream.
func (v *View) MarkerOld(key entry.Key, now Instant) bool {
	r := v.record(key)
	return r == nil || now >= r.life.present-Instant(expiryLate)
}

// Expiring reports whether a key has a value that the server is about to expire: see
// record.Expiring.
func (v *View) Expiring(key entry.Key, now Instant) bool {
	r := v.record(key)
	return r != nil && r.Taken && r.Expiring(now)
}

// DueKey is a key that a peer has to purge or to write again, at a revision.
type DueKey struct {
	Key      entry.Key
	Revision uint64
	Slot     *Slot    // of a slot's key; otherwise nil
	Ticket   *Ticket  // of a ticket's key; otherwise nil. If it is not Garbage, it is to be written again before the key expires
	Session  *Session // of a session's key; otherwise nil
	Marker   bool     // the key is free: its marker is to be written again. Ignore Garbage
	Garbage  bool     // the value has no meaning any more; certain only if the view is live
}
