package sim

import (
	"github.com/kvslots/kvslots/kvslots/internal/entry"
)

type poolTruth struct {
	truth          *truth
	id             entry.Hash
	config         *entry.Entry // a Marker if the pool never existed
	slots          map[int]*entry.Entry
	tickets        map[entry.Key]*ticketTruth
	borrows        map[entry.Hash]int // number of slots and tickets, by borrow: see borrowOf
	calls          []*call            // calls under way
	changed        Instant
	unknownEndedAt Instant // when a call of unknown outcome last ended; its claim may still come

	counted   totals  // what it contributes to the totals
	freeSince Instant // since when a slot has been free; 0 if none is
	usedAt    Instant // when it was last used: an entry was written, except for closings
	idleFrom  Instant // usedAt at the present closing
	removedAt Instant // when a peer last unregistered it as idle
	calledAt  Instant // when a call last registered it or changed its count
}

// observe adds the pool's present state to the windows of its calls.
func (p *poolTruth) observe() {
	pending := p.pending()
	var st *poolState
	for _, c := range p.calls {
		c.window.observe(p, c, pending)
		if needsStates(c.request) {
			if st == nil {
				st = p.truth.state(p)
			}
			c.window.states = append(c.window.states, st)
		}
	}
}

// pending returns the number of calls that may take a slot and have neither slot nor
// ticket yet. Their writes may be under way.
func (p *poolTruth) pending() (n int) {
	for _, c := range p.calls {
		if p.pends(c) {
			n++
		}
	}
	return n
}

func (p *poolTruth) pends(c *call) bool {
	return c.target.takes && (c.target.lease.IsZero() || p.borrows[borrowOf(c.target.lease)] == 0)
}

func (p *poolTruth) setSlot(e *entry.Entry) {
	p.dropSlot(e.Key.N)
	p.slots[e.Key.N] = e
	p.borrows[borrowOf(e.Slot.Lease)]++
}

func (p *poolTruth) dropSlot(position int) {
	if e := p.slots[position]; e != nil {
		p.dropLease(e.Slot.Lease)
		delete(p.slots, position)
	}
}

// dropLease records that a slot or a ticket of the lease is gone.
func (p *poolTruth) dropLease(lease entry.Hash) {
	b := borrowOf(lease)
	if p.borrows[b]--; p.borrows[b] == 0 {
		delete(p.borrows, b)
	}
}

func (p *poolTruth) registered() bool { return !p.config.Marker }

func (p *poolTruth) size() int {
	if !p.registered() {
		return 0
	}
	return p.config.Config.Count
}

// count returns the number of slots that may be taken, with those of positions out of service:
// none while the pool is being closed, or is out of service.
func (p *poolTruth) count() int {
	if p.config.Config.Closing || p.isOut(entry.WholePool) {
		return 0
	}
	return p.size()
}

func (p *poolTruth) isOut(position int) bool {
	_, out := p.config.Config.OutAt(position)
	return out
}

// idleOut returns the number of positions that are out of service and have no slot.
func (p *poolTruth) idleOut() (n int) {
	for i := range p.size() {
		if _, taken := p.slots[i]; !taken && (p.isOut(i) || p.isOut(entry.WholePool)) {
			n++
		}
	}
	return n
}

// free returns the number of slots that have no entry and are not out of service.
func (p *poolTruth) free() int { return p.size() - len(p.slots) - p.idleOut() }

// inForce returns the number of taken slots of the generation in force.
func (p *poolTruth) inForce() (n int) {
	for _, e := range p.slots {
		if e.Slot.Generation == p.config.Config.Generation {
			n++
		}
	}
	return n
}

// leaseAt returns the slot of a lease, the lowest if it has several, or nil.
func (p *poolTruth) leaseAt(lease entry.Hash) (found *entry.Entry) {
	if p.borrows[borrowOf(lease)] == 0 {
		return nil
	}
	for _, e := range p.slots {
		if e.Slot.Lease == lease && (found == nil || e.Key.N < found.Key.N) {
			found = e
		}
	}
	return found
}
