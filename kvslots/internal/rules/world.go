// Package rules decides: which slot is lent, who is next in the line, whether a
// claim is good, and when something has lasted long enough. It is a state
// machine that is fed with the entries of the bucket's stream in their order.
// It does no I/O, starts no goroutine and reads no clock: the time is an
// argument, effects are returned values.
package rules

import (
	"time"

	"github.com/kvslots/kvslots/kvslots/internal/entry"
)

const (
	// MarkerTTL is the shortest time that a marker stays in the bucket.
	MarkerTTL = entry.MarkerTTL

	// StallTime is how long a ticket may let its turn pass before it, and all
	// the others of its session, are passed over.
	StallTime = time.Second

	// Slack is how much later than its own peer the others end a lease: the
	// peer counts from its answer, the others from the claim's timestamp.
	Slack = time.Second

	// doubtTime is how long a claim may be in doubt. Its peer withdraws it
	// much sooner or not at all.
	doubtTime = Instant(time.Second)
)

// World is the state of the bucket as one peer sees it.
//
// The zero value is not ready; use New.
type World struct {
	Revision uint64    // the highest sequence applied
	Time     time.Time // its timestamp, by the stream leader's clock

	pools    map[entry.Hash]*Pool
	sessions map[entry.Hash]*Session
	gaps     Gaps
	dues     dues
	markers  markers
	doubted  map[*Pool]struct{} // pools with claims in doubt
	open     map[*Pool]struct{} // pools with judgements that are left open
	able     map[*Pool]struct{} // pools with tickets that could claim
	touched  []*Pool

	named   int                   // named pools that are held or waited for
	clients int                   // client sessions that are alive
	origins map[entry.Hash]int    // the same, by where they come from
	ended   map[entry.Hash]uint64 // the revisions at which sessions ended lately
	endings []ending

	released releases // by owners, of late
}

// New is a world in which nothing has happened yet.
func New() *World {
	return &World{
		pools:    map[entry.Hash]*Pool{},
		sessions: map[entry.Hash]*Session{},
		doubted:  map[*Pool]struct{}{},
		able:     map[*Pool]struct{}{},
		open:     map[*Pool]struct{}{},
		origins:  map[entry.Hash]int{},
		ended:    map[entry.Hash]uint64{},
	}
}

// Pool is what is known of a pool, or nil.
func (w *World) Pool(id entry.Hash) *Pool { return w.pools[id] }

// Pools is the number of pools of which anything is known.
func (w *World) Pools() int { return len(w.pools) }

// Session is a session that is or was alive, or nil.
func (w *World) Session(id entry.Hash) *Session { return w.sessions[id] }

// Exact tells whether the view is exact: see Gaps.
func (w *World) Exact() bool { return w.gaps.Exact() }

// Apply brings the world up to one entry. Entries at or below Revision are
// ignored. now is the time of the call, age how long ago the entry was written,
// as far as the caller can tell.
func (w *World) Apply(e entry.Entry, now Instant, age time.Duration) {
	if e.Revision <= w.Revision {
		return
	}
	if e.Revision > w.Revision+1 {
		w.gaps.Skip(w.Revision+1, e.Revision-1)
	}
	if !w.Exact() {
		w.learn(e)
		w.gaps.Explain(e.Previous)
		w.closeOpen(now)
	}
	w.Revision, w.Time = e.Revision, e.Time
	switch e.Key.Kind {
	case entry.Config:
		w.applyConfig(e)
	case entry.Slot:
		w.applySlot(e, now, age)
	case entry.Ticket:
		w.applyTicket(e, now)
	case entry.Session:
		w.applySession(e, now, age)
	case entry.Barrier:
		w.heard(e.Key.Session)
	}
	w.forget()
	w.settle(now)
}

// learn notes what an entry tells of one that was skipped, and which this one
// overwrote.
func (w *World) learn(e entry.Entry) {
	if e.Key.Kind == entry.Session {
		w.learnOf(e)
		return
	}
	p := w.pools[e.Key.Pool]
	if p == nil || len(p.open) == 0 {
		return
	}
	var held uint64
	switch e.Key.Kind {
	case entry.Config:
		held = p.ConfigRevision
	case entry.Slot:
		held = p.slotAt(e.Key.N).Revision
	case entry.Ticket:
		if t := p.line.byKey[e.Key]; t != nil {
			held = t.Revision
		}
	}
	p.skipped(held, e.Previous)
}

// closeOpen judges what had to be left open, if the view is exact now.
func (w *World) closeOpen(now Instant) {
	if !w.Exact() {
		return
	}
	for p := range w.open {
		p.close(w.gaps.Unnamed)
		w.touch(p)
	}
	clear(w.open)
}

func (w *World) applyConfig(e entry.Entry) {
	p := w.pool(e.Key.Pool)
	p.ConfigRevision, p.configLife, p.configSet = e.Revision, lifeOf(e), !e.Marker
	before := p.Incarnation()
	if p.naming.Name == "" { // a named pool has none: what is there is somebody else's hand
		p.config = e.Config // zero for a marker and for a corrupt value
	}
	if before != 0 && before != p.Incarnation() {
		until := e.Revision
		if p.Registered() {
			until = e.Previous // the deletion itself was skipped
		}
		p.past = append(p.past, past{before, until})
		if len(p.past) > maxPast {
			p.past = p.past[1:]
		}
	}
	if e.Marker {
		w.expect(p, nil, p.configLife.gone)
	}
	if p.Incarnation() != before {
		for _, s := range p.slots {
			if s != nil {
				p.reindex(s)
			}
		}
	}
	w.touch(p)
}

func (w *World) applySlot(e entry.Entry, now Instant, age time.Duration) {
	p := w.pool(e.Key.Pool)
	s := p.slotAt(e.Key.N)
	held := s.Value
	if e.Previous > s.Revision {
		p.doubtTickets(e.Previous, now)
	}
	s.Revision, s.Time, s.life, s.seen = e.Revision, e.Time, lifeOf(e), now.Add(-age)
	if e.Slot.Fence == 0 || e.Slot.Lease != held.Lease {
		s.granted = s.seen
	}
	s.before, s.promised, s.hurried = s.promised, 0, false
	s.Taken, s.Value, s.claim, s.Fence = !e.Marker, e.Slot, nil, e.Slot.Fence
	if s.Taken && s.Fence == 0 && e.Corrupt == nil {
		s.Fence = e.Revision
	}
	p.name(e.Slot.Naming)
	w.own(s, e.Slot.Session)
	switch {
	case e.Marker:
		w.dues.drop(&s.due)
		w.expect(p, s, s.life.gone)
		w.released.note(p.ID, e, s.seen)
		if t := p.Ticket(e.Ticket); t != nil {
			p.line.remove(t)
		}
	case e.Corrupt != nil:
		w.dues.drop(&s.due)
	default:
		s.ends = now.Add(time.Duration(e.Slot.TTL) + Slack - age)
		w.dues.set(&s.due, s.ends)
		if e.Slot.Fence == 0 { // a renewal may be by another peer than the claimer
			w.heard(e.Slot.Claimer)
		}
		if t := p.Ticket(s.Value.Ticket); t != nil && !t.claimed() {
			t.claim = s
		}
	}
	if t := p.Ticket(held.Ticket); t != nil && held.Ticket != s.Value.Ticket && t.claim == s {
		t.claim = nil // a claim that was void: its ticket stands again
	}
	p.reindex(s)
	w.derive(p, now)
	if s.Taken && e.Slot.Fence == 0 && e.Corrupt == nil {
		p.claimed(s, w.Exact())
		keep(w.open, p, len(p.open) > 0)
	}
	w.touch(p)
}

func (w *World) applyTicket(e entry.Entry, now Instant) {
	p := w.pool(e.Key.Pool)
	if t := p.line.byKey[e.Key]; t != nil {
		p.line.remove(t)
		w.left(t.session)
	}
	p.name(e.Wait.Naming)
	w.derive(p, now)
	if inForce := p.Incarnation(); !e.Marker && e.Corrupt == nil {
		t := &Ticket{Pool: p, Key: e.Key, Revision: e.Revision, Value: e.Wait, life: lifeOf(e)}
		t.session = w.session(e.Wait.Session)
		t.at, t.seen = e.Time, now
		p.line.add(t)
		w.heard(e.Wait.Session)
		w.judgeTicket(t, inForce, now)
		w.derive(p, now)
	} else {
		w.expect(p, nil, e.Time.Add(MarkerTTL))
	}
	w.touch(p)
}

// PassOver passes over the sessions that have let a turn pass for StallTime.
func (w *World) PassOver(now Instant) {
	for p := range w.able {
		for _, t := range p.line.able {
			if !t.could || t.claimed() || t.Value.Enqueued() || now-t.couldSince < Instant(StallTime) {
				continue
			}
			t.session.stalled = true
			for other := range t.session.tickets {
				w.touch(other.Pool)
			}
		}
	}
	w.settle(now)
}

// Idle tells whether PassOver has nothing to watch.
func (w *World) Idle() bool { return len(w.able) == 0 && len(w.doubted) == 0 }

// Settle judges the claims in doubt again: to be called when time has passed.
func (w *World) Settle(now Instant) {
	for p := range w.doubted {
		w.touch(p)
	}
	w.settle(now)
}

// Reached notes that the view has reached a barrier that was sent while it
// stood at sent.
func (w *World) Reached(sent uint64, now Instant) {
	w.gaps.Reached(sent)
	w.closeOpen(now)
	w.settle(now)
}

// Read takes the state of a pool as it is now.
func (w *World) Read(p *Pool) *Reading {
	r := p.Read(w.Revision, w.Exact())
	keep(w.open, p, len(p.open) > 0)
	return r
}

// settle brings what is derived up to date, for the pools that were touched.
func (w *World) settle(now Instant) {
	for _, p := range w.touched {
		w.settleStrays(p, now)
		p.settle(now)
		p.refreshAble(now)
		keep(w.doubted, p, len(p.doubted) > 0)
		keep(w.able, p, len(p.line.able) > 0)
	}
}

func keep(set map[*Pool]struct{}, p *Pool, member bool) {
	if member {
		set[p] = struct{}{}
	} else {
		delete(set, p)
	}
}

// Touched are the pools in which anything may have changed since the last call.
// The slice is good until the next change of the world.
func (w *World) Touched() []*Pool {
	t := w.touched
	w.touched = w.touched[:0]
	return t
}

func (w *World) touch(p *Pool) {
	for _, q := range w.touched {
		if q == p {
			return
		}
	}
	w.touched = append(w.touched, p)
}

func (w *World) pool(id entry.Hash) *Pool {
	p := w.pools[id]
	if p == nil {
		p = &Pool{ID: id}
		w.pools[id] = p
	}
	return p
}
