package peer

import (
	"maps"
	"slices"
	"time"

	"github.com/kvslots/kvslots/kvslots/internal/entry"
	"github.com/kvslots/kvslots/kvslots/internal/rules"
)

// poolState is this peer's pending work for one pool. It exists only while a call
// or a write is pending.
//
// Where a borrow is kept follows from its phase: arrived and refusing, in the queue;
// claiming and withdrawing, among the claims; and by its ticket's key, as long as it
// has one.
type poolState struct {
	p       *Peer
	id      entry.Hash
	flight  rules.InFlight
	borrows int               // that are not done
	queue   []*borrow         // in order of arrival; advance drops those of another phase
	claims  map[int][]*borrow // by position
	changes
	tickets    map[entry.Key]*borrow
	promoting  map[uint64]*borrow      // by the place of the enqueued ticket
	awaits     map[entry.Hash][]*await // by session
	config     *write                  // the pending write of the configuration, if any
	generation uint64                  // of the pool, when its borrows were last looked at
	gate
	ticketNumbers
	named       bool // it is a named pool
	opening     bool // see noteOpening
	dirty       bool
	later       timer // see markLater
	waitPending bool  // see want
}

// gate is what the pool has to wait for before it chooses a position.
type gate struct {
	awaitedRevision uint64 // the view must reach this revision
	pausedTill      Instant
}

// ticketNumbers are the numbers of this peer's tickets in a pool.
type ticketNumbers struct {
	nextNumber  int   // the lowest that was never used
	freeNumbers []int // lower ones that are free
}

// changes holds the positions whose slots have changed since the last advance.
type changes struct {
	changed    []int
	allChanged bool
}

// pools holds the pools with pending work.
type pools struct {
	p        *Peer
	byID     map[entry.Hash]*poolState
	dirty    []*poolState // to be advanced
	advanced []*poolState // memory for the next dirty
}

// of returns the pending work for a pool; it begins with none.
func (s *pools) of(id entry.Hash) *poolState {
	ps := s.byID[id]
	if ps == nil {
		ps = &poolState{p: s.p, id: id}
		s.byID[id] = ps
	}
	return ps
}

// all returns the pools in an order that does not depend on a map.
func (s *pools) all() []*poolState {
	return slices.SortedFunc(maps.Values(s.byID), func(x, y *poolState) int { return slices.Compare(x.id[:], y.id[:]) })
}

// advance advances the dirty pools. They may make others dirty.
func (s *pools) advance() {
	dirty := s.dirty
	s.dirty, s.advanced = s.advanced[:0], nil
	for _, ps := range dirty {
		ps.dirty = false
		ps.advance()
	}
	clear(dirty)
	s.advanced = dirty[:0]
}

// mark schedules the pool for the next round of Peer.advance.
func (ps *poolState) mark() {
	if !ps.dirty {
		ps.dirty = true
		ps.p.pools.dirty = append(ps.p.pools.dirty, ps)
	}
}

// tidy forgets the state of a pool for which nothing is pending.
func (ps *poolState) tidy() {
	if ps.borrows+len(ps.awaits)+len(ps.tickets)+len(ps.flight.Purges) == 0 && ps.config == nil && !ps.dirty && ps.p.pools.byID[ps.id] == ps {
		delete(ps.p.pools.byID, ps.id)
	}
	ps.noteOpening()
}

// put sets m[k] to v, and makes the map if it is nil.
func put[K comparable, V any](m *map[K]V, k K, v V) {
	if *m == nil {
		*m = map[K]V{}
	}
	(*m)[k] = v
}

// drop removes x from the list of k.
func drop[K, T comparable](lists map[K][]T, k K, x T) {
	if left := without(lists[k], x); len(left) > 0 {
		lists[k] = left
	} else {
		delete(lists, k)
	}
}

// without returns a new list without x.
func without[T comparable](list []T, x T) []T {
	if i := slices.Index(list, x); i >= 0 {
		return slices.Concat(list[:i], list[i+1:])
	}
	return list
}

// advance advances everything in a pool as far as the view allows.
func (ps *poolState) advance() {
	if ps.p.watch.mode != live {
		return
	}
	pool := ps.p.view.Pool(ps.id)
	ps.notePurges(pool)
	ps.noteGeneration(pool)
	ps.noteClaims(pool)
	ps.dropPromotions(pool) // the tickets may have gone while the view was being checked
	if ps.mayChoose() {
		ps.serveLine(pool)
	}
	ps.reviewRefusals() // these borrows came before those that have just arrived
	if ps.mayChoose() {
		ps.serveQueue(pool)
	}
	ps.queue = slices.DeleteFunc(ps.queue, func(b *borrow) bool { return b.phase != arrived && b.phase != refusing })
	ps.tidy()
}

// mayChoose reports whether a position may be chosen in the pool now.
func (ps *poolState) mayChoose() bool {
	return ps.p.view.Revision >= ps.awaitedRevision && ps.p.now >= ps.pausedTill && !ps.p.closing
}

// pause keeps a pool from writing claims for a while.
func (ps *poolState) pause(d time.Duration) {
	ps.pausedTill = max(ps.pausedTill, ps.p.now.Add(d))
	ps.p.after(d, func() { ps.mark() })
}

// markLater schedules the pool after failurePause, to try something again.
func (ps *poolState) markLater() {
	if ps.later.index == 0 {
		ps.later.fire = ps.mark
		ps.p.timers.start(&ps.later, ps.p.now.Add(failurePause))
	}
}

// wantExact schedules the pool for when the view is exact.
func (ps *poolState) wantExact() { ps.want(ps.p.reads.whenExact) }

// want schedules the pool for when wait calls its argument. One wait is pending at a
// time.
func (ps *poolState) want(wait func(do func())) {
	if ps.waitPending {
		return
	}
	ps.waitPending = true
	wait(func() {
		ps.waitPending, ps.allChanged = false, true
		ps.mark()
		if pool := ps.p.view.Pool(ps.id); pool != nil {
			ps.p.promote(pool)
		}
	})
}

// trackPurge records that a slot's purge is in flight: the pool claims no higher
// position before the view shows the purge.
func (w *write) trackPurge() {
	if key := w.msg.Key; w.msg.Marker && key.Kind == entry.Slot {
		put(&w.p.pools.of(key.Pool).flight.Purges, key.N, w.msg.Revision)
	}
}

// untrackPurge undoes trackPurge for a purge that was not written. If the purge was
// refused because of a revision above the view's, notePurges does so when the view has
// reached it: another purge before would be refused as well.
func (w *write) untrackPurge(a Ack) {
	key := w.msg.Key
	if !w.msg.Marker || key.Kind != entry.Slot || a.Outcome == Written || a.Outcome == Conflict && a.Revision > w.p.view.Revision {
		return
	}
	if ps := w.p.pools.byID[key.Pool]; ps != nil && ps.flight.Purges[key.N] == w.msg.Revision {
		delete(ps.flight.Purges, key.N)
		ps.mark()
	}
}

// notePurges drops the purges that the view shows.
func (ps *poolState) notePurges(pool *rules.Pool) {
	for position, revision := range ps.flight.Purges {
		if s := pool.Slot(position); s == nil || s.Revision > revision {
			delete(ps.flight.Purges, position)
		}
	}
}
