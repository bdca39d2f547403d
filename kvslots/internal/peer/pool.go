package peer

import (
	"fmt"
	"maps"
	"slices"
	"time"

	"github.com/kvslots/kvslots/kvslots/internal/entry"
	"github.com/kvslots/kvslots/kvslots/internal/rules"
)

// poolState is this peer's pending work for one pool. It exists only while a call
// or a write is pending.
//
// Where a borrow is kept follows from its phase: arrived, in the queue;
// claiming and withdrawing, among the claims; and by its ticket's key, as long as it
// has one.
type poolState struct {
	p          *pools
	id         entry.Hash
	queue      []*borrow // in order of arrival; advance drops those of another phase
	users      int       // borrows that are not done, and claims for enqueued tickets
	over       []*caller // callers whose wait is over, or which do not wait
	tickets    map[entry.Key]*borrow
	serving    map[uint64]struct{}    // the places of the enqueued tickets for which a claim is not settled
	requests   map[entry.Hash]*borrow // by the request key
	generation uint64                 // of the pool, when its borrows were last looked at
	pausedTill Instant                // no position is chosen before
	ticketNumbers
	dirty bool
	later timer // see markLater
}

// ticketNumbers are the numbers of this peer's tickets in a pool.
type ticketNumbers struct {
	nextNumber  int   // the lowest that was never used
	freeNumbers []int // lower ones that are free
}

type pools struct {
	*leases
	names      naming
	byID       map[entry.Hash]*poolState
	dirty      []*poolState           // to be advanced
	advanced   []*poolState           // memory for the next dirty
	spare      [][]*borrow            // memory for the queue of a pool
	steps      [phases][phases]uint64 // of borrows, from phase to phase
	lastBorrow uint64                 // the number of the newest borrow
	listed     []*borrow              // those that are not done
}

// of returns the pending work for a pool; it begins with none.
func (p *pools) of(id entry.Hash) *poolState {
	ps := p.byID[id]
	if ps == nil {
		ps = &poolState{p: p, id: id}
		p.byID[id] = ps
		if last := len(p.spare) - 1; last >= 0 {
			ps.queue, p.spare = p.spare[last], p.spare[:last]
		}
	}
	return ps
}

// all returns the pools in an order that does not depend on a map.
func (p *pools) all() []*poolState {
	return slices.SortedFunc(maps.Values(p.byID), func(x, y *poolState) int { return slices.Compare(x.id[:], y.id[:]) })
}

// serve advances the dirty pools, which may make others dirty. It reports whether there was one.
func (p *pools) serve() bool {
	dirty := p.dirty
	p.dirty, p.advanced = p.advanced[:0], nil
	for _, ps := range dirty {
		ps.dirty = false
		ps.advance()
	}
	clear(dirty)
	p.advanced = dirty[:0]
	return len(dirty) > 0
}

// touched schedules a pool in which anything may have changed.
func (p *pools) touched(pool *rules.Pool) {
	if ps := p.byID[pool.ID]; ps != nil {
		ps.mark()
	}
}

func (p *pools) markAll() {
	for _, ps := range p.all() {
		ps.mark()
	}
}

// mark schedules the pool for the next round of Peer.advance.
func (ps *poolState) mark() {
	if !ps.dirty {
		ps.dirty = true
		ps.p.dirty = append(ps.p.dirty, ps)
	}
}

// tidy forgets the state of a pool for which nothing is pending.
func (ps *poolState) tidy() {
	if ps.users+len(ps.tickets) == 0 && !ps.dirty && ps.p.now() >= ps.pausedTill && ps.p.byID[ps.id] == ps {
		delete(ps.p.byID, ps.id)
		if len(ps.p.spare) < maxSpare {
			ps.p.spare, ps.queue = append(ps.p.spare, ps.queue[:0]), nil
		}
	}
}

func (ps *poolState) advance() {
	pool := ps.p.view().Pool(ps.id)
	ps.noteGeneration(pool)
	if ps.mayChoose() {
		ps.serveLine(pool)
	}
	if ps.mayChoose() {
		ps.serveQueue(pool)
	}
	ps.reviewRefusals(pool)
	ps.queue = slices.DeleteFunc(ps.queue, func(b *borrow) bool { return b.phase != arrived })
	ps.tidy()
}

// mayChoose reports whether a position may be chosen in the pool now.
func (ps *poolState) mayChoose() bool {
	return ps.p.now() >= ps.pausedTill && !ps.p.isStopping()
}

// pause keeps a pool from writing claims for a while.
func (ps *poolState) pause(d time.Duration) {
	ps.pausedTill = max(ps.pausedTill, ps.p.now().Add(d))
	ps.p.after(nil, d, ps.mark)
}

// markLater schedules the pool after failurePause, to try something again.
func (ps *poolState) markLater() {
	if !ps.later.isSet() {
		ps.p.arm(&ps.later, ps.p.now().Add(failurePause), ps.mark)
	}
}

func (p *pools) remains() (list []string) {
	for _, ps := range p.byID {
		list = append(list, fmt.Sprintf("pool %s: queue %d tickets %d users %d", ps.id, len(ps.queue), len(ps.tickets), ps.users))
	}
	return list
}
