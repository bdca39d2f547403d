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

	pools    map[entry.Hash]*Pool
	sessions map[entry.Hash]*Session
	peers    map[*Session]struct{}
	gaps     Gaps
	clock    clock
	ends     dues // of slots, sessions and garbage: to be purged
	marks    dues // of free keys: to be forgotten
	idles    dues // of named pools that are not used, since when
	doubted  poolSet
	open     poolSet
	able     poolSet
	closing  poolSet
	touched  []*Pool
	handed   []*Pool // the slice that Touched returned last

	written   Instant            // when the entry was written that was applied last, at the latest
	forgotten uint64             // the highest revision of a marker that was forgotten
	named     int                // named pools that are held or waited for
	clients   int                // client sessions that are alive
	origins   map[entry.Hash]int // the same, by where they come from
	endings   []ending           // the sessions that ended lately
}

// New is a world in which nothing has happened yet.
func New() *World {
	return &World{
		pools:    map[entry.Hash]*Pool{},
		sessions: map[entry.Hash]*Session{},
		peers:    map[*Session]struct{}{},
		doubted:  poolSet{kind: inDoubt},
		open:     poolSet{kind: leftOpen},
		able:     poolSet{kind: hasAble},
		closing:  poolSet{kind: isClosing},
		origins:  map[entry.Hash]int{},
	}
}

// Pool is what is known of a pool, or nil.
func (w *World) Pool(id entry.Hash) *Pool { return w.pools[id] }

// Pools is the number of pools of which anything is known.
func (w *World) Pools() int { return len(w.pools) }

// EachPool calls yield for every pool of which anything is known, in no order,
// until it returns false.
func (w *World) EachPool(yield func(*Pool) bool) {
	for _, p := range w.pools {
		if !yield(p) {
			return
		}
	}
}

// Exact reports whether the view is exact: see Gaps.
func (w *World) Exact() bool { return w.gaps.Exact() }

// Apply brings the world up to one entry. Entries at or below Revision are
// ignored. now is the time of the call, age how long ago the entry was written,
// as far as the caller can tell.
func (w *World) Apply(e *entry.Entry, age time.Duration, now Instant) {
	if e.Revision <= w.Revision {
		return
	}
	if e.Revision > w.Revision+1 {
		w.gaps.Skip(w.Revision+1, e.Revision-1)
	}
	if !w.Exact() {
		w.learn(e)
		w.gaps.Explain(e.Previous)
		w.closeOpen()
	}
	w.Revision, w.Time = e.Revision, e.Time
	w.written = min(w.clock.writtenAt(e.Time, now), now.Add(-age))
	switch e.Key.Kind {
	case entry.Config:
		w.applyConfig(e, now, age)
	case entry.Slot:
		w.applySlot(e, now, age)
	case entry.Ticket:
		w.applyTicket(e, now, age)
	case entry.Session:
		w.applySession(e, now, Instant(age))
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

func (w *World) applyConfig(e *entry.Entry, now Instant, age time.Duration) {
	p := w.pool(e.Key.Pool)
	before, held := p.Generation(), p.ConfigRevision
	p.ConfigRevision, p.configSet, p.configAt = e.Revision, !e.Marker, now
	p.config = e.Config // zero for a marker and for a corrupt value
	p.life.extend(e, now, age)
	if e.Marker {
		w.marks.set(p.markDue(), p.life.present.Add(expiryLate))
	} else {
		w.marks.drop(&p.mark)
	}
	if after := p.Generation(); after != before {
		if before != 0 {
			until := e.Revision
			if after != 0 && e.Previous != held {
				until = e.Previous // the end of the generation before was skipped
			}
			p.past = append(p.past, past{before, until})
			if len(p.past) > maxPast {
				p.past = p.past[1:]
			}
		}
		for _, s := range p.slots {
			if s != nil {
				p.reindex(s)
			}
		}
		for t := p.line.first; t != nil; t = t.next {
			w.garbage(t, now)
		}
	}
	w.touch(p)
}

func (p *Pool) markDue() *due {
	p.mark.of = p
	return &p.mark
}

func (w *World) applySlot(e *entry.Entry, now Instant, age time.Duration) {
	p := w.pool(e.Key.Pool)
	s := p.slotAt(e.Key.N)
	held := s.Value
	if e.Previous > s.Revision {
		p.doubtTickets(e.Previous, e.Revision, now)
	}
	if p.leases != nil && s.Taken && p.leases[held.Lease] == s {
		delete(p.leases, held.Lease)
	}
	s.Replaced, s.Author = e.Previous, e.Author
	s.Revision, s.Time, s.seen = e.Revision, e.Time, now.Add(-age)
	if e.Slot.Fence == 0 || e.Slot.Lease != held.Lease {
		s.granted = s.seen
	}
	s.Taken, s.Value, s.claim, s.Fence = !e.Marker, e.Slot, nil, e.Slot.Fence
	if s.Taken && s.Fence == 0 && e.Corrupt == nil {
		s.Fence = e.Revision
	}
	s.stray = false
	s.life.extend(e, now, age)
	w.own(s, e.Slot.Session)
	if e.Marker {
		w.slotFreed(s, e, now)
	} else {
		w.slotTaken(s, e, now, age)
	}
	if t := p.Ticket(held.Ticket); t != nil && held.Ticket != s.Value.Ticket && t.claim == s {
		t.claim = p.claimNaming(t.Place) // without one, the claim was void and its ticket stands again
	}
	p.reindex(s)
	if s.Taken && e.Slot.Fence == 0 && e.Corrupt == nil {
		p.claimed(s, w.Exact())
		w.open.put(p, len(p.open) > 0)
	}
	w.touch(p)
}

func (w *World) slotFreed(s *Slot, e *entry.Entry, now Instant) {
	w.remark(&s.due, &s.life, e, now)
	w.marks.set(&s.mark, s.life.present.Add(expiryLate))
	if t := s.Pool.Ticket(e.Ticket); t != nil && !t.Value.Spent {
		w.removeTicket(t)
		w.ends.set(&t.due, now.Add(garbageTime))
	}
	if e.Owner != "" {
		s.Pool.noteRelease(e.Owner, s.seen, now)
	}
}

func (w *World) slotTaken(s *Slot, e *entry.Entry, now Instant, age time.Duration) {
	p := s.Pool
	w.marks.drop(&s.mark)
	p.index(s)
	if e.Corrupt != nil {
		w.ends.drop(&s.due)
		return
	}
	s.ends = now.Add(time.Duration(e.Slot.TTL) + Slack - age)
	w.ends.set(&s.due, s.ends)
	if e.Slot.Fence == 0 { // a renewal may be by another peer than the claimer
		w.heard(e.Slot.Claimer)
	}
	if t := p.Ticket(s.Value.Ticket); t != nil && !t.claimed() {
		t.claim = s
	}
}

func (w *World) applyTicket(e *entry.Entry, now Instant, age time.Duration) {
	p := w.pool(e.Key.Pool)
	t := &Ticket{Pool: p, Key: e.Key, Revision: e.Revision, Taken: !e.Marker, Value: e.Wait, seen: now.Add(-age)}
	t.due.of, t.mark.of = t, t
	if t.Place = e.Wait.Place; t.Place == 0 {
		t.Place = e.Revision
	}
	was := p.line.byKey[e.Key]
	if was != nil {
		t.life = was.life
		if was.lined && was.Place == t.Place {
			t.seen, t.doubted, t.doubtedAt = was.seen, was.doubted, was.doubtedAt
		}
		w.removeTicket(was)
		w.ends.drop(&was.due)
		w.marks.drop(&was.mark)
	}
	t.life.extend(e, now, age)
	if p.line.byKey == nil {
		p.line.byKey = map[entry.Key]*Ticket{}
	}
	p.line.byKey[e.Key] = t
	switch {
	case e.Marker:
		w.marks.set(&t.mark, t.life.present.Add(expiryLate))
		w.remark(&t.due, &t.life, e, now)
	case e.Corrupt == nil:
		w.lineUp(t, now)
	}
	w.touch(p)
}

// lineUp puts a ticket into the line.
func (w *World) lineUp(t *Ticket, now Instant) {
	t.author = w.session(t.Key.Session)
	t.author.tickets = append(t.author.tickets, t)
	if peer := t.Value.Peer; !peer.IsZero() && peer != t.Key.Session {
		t.peer = w.session(peer)
		t.peer.tickets = append(t.peer.tickets, t)
	}
	if t.Place != t.Revision { // otherwise no claim can have named it yet
		t.claim = t.Pool.claimNaming(t.Place)
	}
	t.Pool.line.add(t)
	w.heard(t.serverID())
	w.garbage(t, now)
}

// claimNaming is a slot that names a ticket of that place, a live one if there is
// any, or nil. One that is not live may become so: a view that loads the bucket can
// see the slot and the ticket before the session that holds both.
func (p *Pool) claimNaming(place uint64) *Slot {
	var found *Slot
	for _, s := range p.slots {
		if s == nil || !s.Taken || s.Value.Ticket != place {
			continue
		}
		if found = s; s.Live() {
			break
		}
	}
	return found
}

func (t *Ticket) serverID() entry.Hash {
	if t.peer != nil {
		return t.peer.ID
	}
	return t.author.ID
}

// removeTicket takes a ticket out of the line for good.
func (w *World) removeTicket(t *Ticket) {
	if !t.lined {
		return
	}
	t.Pool.line.remove(t)
	w.ends.drop(&t.due)
	for _, s := range [2]*Session{t.author, t.peer} {
		if s != nil {
			s.tickets = without(s.tickets, t)
			w.left(s)
		}
	}
}

// Stands is the revision at which a key stands, and whether it has a value. A
// marker that was forgotten stands at 0, as does a barrier.
func (w *World) Stands(key entry.Key) (revision uint64, taken bool) {
	if key.Kind == entry.Session {
		if s := w.sessions[key.Session]; s != nil {
			return s.Revision, s.Present
		}
		return 0, false
	}
	p := w.pools[key.Pool]
	if p == nil {
		return 0, false
	}
	switch key.Kind {
	case entry.Config:
		return p.ConfigRevision, p.configSet
	case entry.Slot:
		if s := p.Slot(key.N); s != nil {
			return s.Revision, s.Taken
		}
	case entry.Ticket:
		if t := p.line.byKey[key]; t != nil {
			return t.Revision, t.Taken
		}
	}
	return 0, false
}

// life is that of a key, or nil where nothing is known of it.
func (w *World) life(key entry.Key) *life {
	if key.Kind == entry.Session {
		if s := w.sessions[key.Session]; s != nil {
			return &s.life
		}
		return nil
	}
	p := w.pools[key.Pool]
	if p == nil {
		return nil
	}
	switch key.Kind {
	case entry.Config:
		return &p.life
	case entry.Slot:
		if s := p.Slot(key.N); s != nil {
			return &s.life
		}
	case entry.Ticket:
		if t := p.line.byKey[key]; t != nil {
			return &t.life
		}
	}
	return nil
}

// Absent notes what the server said: that a key is absent which the view holds for
// free.
func (w *World) Absent(key entry.Key) {
	if _, taken := w.Stands(key); taken {
		return
	}
	p := w.pools[key.Pool]
	switch {
	case p == nil:
	case key.Kind == entry.Slot && p.Slot(key.N) != nil:
		w.expireNow(&p.Slot(key.N).mark)
	case key.Kind == entry.Config:
		w.expireNow(p.markDue())
	case key.Kind == entry.Ticket && p.line.byKey[key] != nil:
		w.expireNow(&p.line.byKey[key].mark)
	}
}

func (w *World) expireNow(mark *due) {
	if mark.index != 0 {
		w.forget(mark)
	}
}

// MarkerOld reports whether the marker of a free key may have gone from the
// bucket.
func (w *World) MarkerOld(key entry.Key, now Instant) bool {
	l := w.life(key)
	return l == nil || now >= l.present-Instant(expiryLate)
}

// Expiring reports whether a key that has a value is so close to its physical end
// that nothing but a purge may be written to it: the server's marker would erase
// what is written at that moment.
func (w *World) Expiring(key entry.Key, now Instant) bool {
	_, taken := w.Stands(key)
	l := w.life(key)
	return taken && l != nil && now >= l.present-Instant(expiryNear)
}

// PassOver passes over the peers that have let a turn pass for StallTime.
func (w *World) PassOver(now Instant) {
	for _, p := range w.able.list {
		for _, t := range p.line.able {
			if t.couldSince == 0 || t.claimed() || t.stalled() || now.Sub(t.couldSince) < StallTime {
				continue
			}
			s := t.server()
			if s == nil {
				t.passed = true
				w.touch(p)
				continue
			}
			s.stalled = true
			for _, other := range s.tickets {
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
		p.idle.of = p
		w.pools[id] = p
	}
	return p
}
