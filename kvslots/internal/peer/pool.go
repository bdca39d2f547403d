package peer

import (
	"time"

	"github.com/kvslots/kvslots/kvslots/internal/entry"
	"github.com/kvslots/kvslots/kvslots/internal/rules"
)

// poolState is this peer's pending work for one pool. It exists only while a call
// or a write is pending.
//
// Where a borrow is kept follows from its phase: arrived, in the queue; claiming
// and withdrawing, among the claims; and by its ticket's key, as long as it has
// one.
type poolState struct {
	p       *Peer
	id      entry.Hash
	flight  rules.InFlight
	borrows int // that are not done
	queue   []*borrow
	claims  map[int][]*borrow // by position
	changes
	tickets    map[entry.Key]*borrow
	refusing   []*borrow
	promoting  map[uint64]*borrow      // by the place of the enqueued ticket
	awaits     map[entry.Hash][]*await // by session: for what it has enqueued for
	config     *write                  // the write of the configuration that is under way
	generation uint64                  // of the pool, when its borrows were last looked at
	gate
	ticketNames
	named      bool // it is a named pool
	coming     bool // see noteComing
	dirty      bool
	later      timer // see markLater
	wantsExact bool  // something here waits for an exact view
}

// gate is what has to be awaited before a position is chosen.
type gate struct {
	heldUntil  uint64 // the view must reach this
	pausedTill Instant
}

// ticketNames are the numbers of this peer's tickets in a pool.
type ticketNames struct {
	nextName  int   // the lowest that was never used
	freeNames []int // lower ones that are free
}

// changes are the positions whose slots have changed since the last advance.
type changes struct {
	changed    []int
	allChanged bool
}

func (p *Peer) pool(id entry.Hash) *poolState {
	ps := p.pools[id]
	if ps == nil {
		ps = &poolState{p: p, id: id}
		p.pools[id] = ps
	}
	return ps
}

// tidy forgets the state of a pool for which nothing is pending.
func (ps *poolState) tidy() {
	if ps.borrows+len(ps.awaits)+len(ps.tickets)+len(ps.flight.Purges) == 0 && ps.config == nil && !ps.dirty && ps.p.pools[ps.id] == ps {
		delete(ps.p.pools, ps.id)
	}
	ps.noteComing()
}

// put makes an entry in a map that may not be there yet.
func put[K comparable, V any](m *map[K]V, k K, v V) {
	if *m == nil {
		*m = map[K]V{}
	}
	(*m)[k] = v
}

// drop takes something out of a list in a map, and an empty list out of the map.
func drop[K, T comparable](lists map[K][]T, k K, x T) {
	if left := without(lists[k], x); len(left) > 0 {
		lists[k] = left
	} else {
		delete(lists, k)
	}
}

// without is a new list that lacks something.
func without[T comparable](list []T, x T) []T {
	for i, y := range list {
		if y == x {
			return append(list[:i:i], list[i+1:]...)
		}
	}
	return list
}

// advance takes everything in a pool as far as the view allows.
func (ps *poolState) advance() {
	if ps.p.watch.mode != live {
		return
	}
	pool := ps.p.view.Pool(ps.id)
	ps.notePurges(pool)
	ps.noteGeneration(pool)
	ps.noteClaims(pool)
	if ps.mayChoose() {
		ps.serveLine(pool)
	}
	ps.reviewRefusals() // they came before those in the queue
	if ps.mayChoose() {
		ps.serveQueue(pool)
	}
	ps.tidy()
}

// mayChoose reports whether a position may be chosen in the pool now.
func (ps *poolState) mayChoose() bool {
	return ps.p.view.Revision >= ps.heldUntil && ps.p.now >= ps.pausedTill && !ps.p.closing
}

// pause keeps a pool from writing claims for a while.
func (ps *poolState) pause(d time.Duration) {
	ps.pausedTill = max(ps.pausedTill, ps.p.now.Add(d))
	ps.p.after(d, func() { ps.mark() })
}

// markLater has a pool advanced after a while, for something may have to be tried
// again.
func (ps *poolState) markLater() {
	if ps.later.index == 0 {
		ps.later.fire = ps.mark
		ps.p.timers.start(&ps.later, ps.p.now.Add(failurePause))
	}
}

// wantExact has a barrier sent unless the view is exact, and the pool advanced
// when it is.
func (ps *poolState) wantExact() { ps.want(ps.p.whenExact) }

// want has a pool advanced when something that is waited for has come.
func (ps *poolState) want(wait func(do func())) {
	if ps.wantsExact {
		return
	}
	ps.wantsExact = true
	wait(func() {
		ps.wantsExact, ps.allChanged = false, true
		ps.mark()
		if pool := ps.p.view.Pool(ps.id); pool != nil {
			ps.p.promote(pool)
		}
	})
}

// trackPurge notes that a slot's purge is under way: no higher position is claimed
// before it is seen.
func (p *Peer) trackPurge(m entry.Message) {
	if m.Marker && m.Key.Kind == entry.Slot {
		put(&p.pool(m.Key.Pool).flight.Purges, m.Key.N, m.Revision)
	}
}

// untrackPurge notes the answer: a purge that was not written will not be seen. What
// it was refused for will be, if the view is behind that: until then another purge
// would be refused as well.
func (p *Peer) untrackPurge(m entry.Message, a Ack) {
	if !m.Marker || m.Key.Kind != entry.Slot || a.Outcome == Written || a.Outcome == Conflict && a.Revision > p.view.Revision {
		return
	}
	if ps := p.pools[m.Key.Pool]; ps != nil && ps.flight.Purges[m.Key.N] == m.Revision {
		delete(ps.flight.Purges, m.Key.N)
		ps.mark()
	}
}

// notePurges drops the purges that the view has reached.
func (ps *poolState) notePurges(pool *rules.Pool) {
	for position, revision := range ps.flight.Purges {
		if s := pool.Slot(position); s == nil || s.Revision > revision {
			delete(ps.flight.Purges, position)
		}
	}
}
