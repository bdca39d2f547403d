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
	id         entry.Hash
	flight     rules.InFlight
	borrows    int // that are not done
	queue      []*borrow
	claims     map[int]*borrow // by position; further ones at the same position are chained
	changed    []int           // positions whose slots have changed since the last advance
	allChanged bool
	tickets    map[entry.Key]*borrow
	refusing   []*borrow
	promoting  map[uint64]*borrow      // by the place of the enqueued ticket
	awaits     map[entry.Hash][]*await // by session: for what it has enqueued for
	config     *configWrite            // the write of the configuration that is under way
	generation uint64                  // of the pool, when its borrows were last looked at
	heldUntil  uint64                  // the view must reach this before anything is chosen
	pausedTill Instant                 // nothing is chosen before
	nextName   int                     // the lowest number that a ticket of this peer never had here
	freeNames  []int                   // lower ones that are free
	named      bool                    // it is a named pool
	coming     bool                    // see noteComing
	dirty      bool
	later      bool // it is to be marked after failurePause
	wantsExact bool // something here waits for an exact view
}

func (p *Peer) pool(id entry.Hash) *poolState {
	ps := p.pools[id]
	if ps == nil {
		ps = &poolState{id: id}
		p.pools[id] = ps
	}
	return ps
}

// tidy forgets the state of a pool for which nothing is pending.
func (p *Peer) tidy(ps *poolState) {
	if ps.borrows+len(ps.awaits)+len(ps.tickets)+len(ps.flight.Purges) == 0 && ps.config == nil && !ps.dirty && p.pools[ps.id] == ps {
		delete(p.pools, ps.id)
	}
	p.noteComing(ps)
}

// put makes an entry in a map that may not be there yet.
func put[K comparable, V any](m *map[K]V, k K, v V) {
	if *m == nil {
		*m = map[K]V{}
	}
	(*m)[k] = v
}

// advance takes everything in a pool as far as the view allows.
func (p *Peer) advance(ps *poolState) {
	if p.watch.mode != live {
		return
	}
	pool := p.world.Pool(ps.id)
	p.notePurges(ps, pool)
	p.noteGeneration(ps, pool)
	p.noteClaims(ps, pool)
	if p.mayChoose(ps) {
		p.serveLine(ps, pool)
		p.serveQueue(ps, pool)
	}
	p.reviewRefusals(ps)
	p.tidy(ps)
}

// mayChoose reports whether a position may be chosen in the pool now.
func (p *Peer) mayChoose(ps *poolState) bool {
	return p.world.Revision >= ps.heldUntil && p.now >= ps.pausedTill && !p.closing
}

// pause keeps a pool from writing claims for a while.
func (p *Peer) pause(ps *poolState, d time.Duration) {
	ps.pausedTill = max(ps.pausedTill, p.now.Add(d))
	p.after(d, func() { p.mark(ps) })
}

// markLater has a pool advanced after a while, for something may have to be tried
// again.
func (p *Peer) markLater(ps *poolState) {
	if ps.later {
		return
	}
	ps.later = true
	p.after(failurePause, func() {
		ps.later = false
		p.mark(ps)
	})
}

// wantExactFor has a barrier sent unless the view is exact, and the pool advanced
// when it is.
func (p *Peer) wantExactFor(ps *poolState) {
	if !ps.wantsExact {
		ps.wantsExact = true
		p.whenExact(func() {
			ps.wantsExact, ps.allChanged = false, true
			p.mark(ps)
		})
	}
}

// trackPurge notes that a slot's purge is under way: no higher position is claimed
// before it is seen.
func (p *Peer) trackPurge(m entry.Message) {
	if m.Key.Kind == entry.Slot {
		put(&p.pool(m.Key.Pool).flight.Purges, m.Key.N, m.Revision)
	}
}

// untrackPurge notes the answer: a purge that was not written will not be seen.
func (p *Peer) untrackPurge(m entry.Message, a Ack) {
	if m.Key.Kind != entry.Slot || a.Outcome == Written {
		return
	}
	if ps := p.pools[m.Key.Pool]; ps != nil && ps.flight.Purges[m.Key.N] == m.Revision {
		delete(ps.flight.Purges, m.Key.N)
		p.mark(ps)
	}
}

// notePurges drops the purges that the view has reached.
func (p *Peer) notePurges(ps *poolState, pool *rules.Pool) {
	for position, revision := range ps.flight.Purges {
		if s := pool.Slot(position); s == nil || s.Revision > revision {
			delete(ps.flight.Purges, position)
		}
	}
}
