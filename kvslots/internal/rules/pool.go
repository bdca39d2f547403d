package rules

import (
	"crypto/subtle"

	"github.com/kvslots/kvslots/kvslots/internal/entry"
)

// Pool is what the view knows of one pool.
type Pool struct {
	ID             entry.Hash
	ConfigRevision uint64 // of the configuration's last entry, marker or not

	config     entry.ConfigValue // zero where none is registered
	configLife life              // of the configuration's last entry
	configSet  bool              // the configuration's key has a value, readable or not
	past       []past            // the last incarnations before
	slots      []*Slot           // by position; nil where the key was never seen
	live       positions         // an index of slots: the lent ones
	doubted    []*Slot           // slots with claims that are not known to be good
	unjudged   []*claim          // claims that are not judged yet, in their order
	open       []*snapshot       // instants at which the view was not exact
	line       line
	held       map[uint64]int // live slots of a named pool, by their terms
	strays     []*Slot        // taken, and not live any more, since the last settle
	queued     bool           // in the world's queue of markers

	naming    entry.Naming // of a named pool: the name, and the terms it has or had last; no nonce
	idleSince Instant      // of a named pool that nobody holds or waits for
}

// past is an incarnation that was.
type past struct {
	incarnation uint64
	until       uint64 // the revision that ended it
}

// maxPast bounds the incarnations that are remembered: long enough for whoever
// still waits to hear about one.
const maxPast = 16

// Registered tells whether the pool exists.
func (p *Pool) Registered() bool { return p.config.Incarnation != 0 && !p.config.Deleted }

// Incarnation is 0 where no pool is registered.
func (p *Pool) Incarnation() uint64 {
	if !p.Registered() {
		return 0
	}
	return p.config.Incarnation
}

// Had tells whether the pool was registered under that incarnation when the
// stream stood at the given revision, which the view has reached.
func (p *Pool) Had(incarnation, revision uint64) bool {
	if p.naming.Name != "" {
		return true // no deletion takes its leases away
	}
	for _, past := range p.past {
		if past.incarnation == incarnation {
			return revision < past.until
		}
	}
	return p.knows(incarnation)
}

// Count is the number of slots in force.
func (p *Pool) Count() int {
	if !p.Registered() {
		return 0
	}
	return p.config.Count
}

// InUse is the number of live slots. It may exceed Count.
func (p *Pool) InUse() int { return p.live.len() }

// Waiting is the number of tickets that stand in the line.
func (p *Pool) Waiting() int { return p.line.standing() }

// Slot is the slot at a position, or nil where its key was never seen.
func (p *Pool) Slot(position int) *Slot {
	if position >= len(p.slots) {
		return nil
	}
	return p.slots[position]
}

// Slots calls yield for every slot whose key is taken, in order of position,
// until it returns false.
func (p *Pool) Slots(yield func(*Slot) bool) {
	for _, s := range p.slots {
		if s != nil && s.Taken && !yield(s) {
			return
		}
	}
}

// InDoubt tells whether there is a claim that its own peer may be about to
// withdraw.
func (p *Pool) InDoubt(now Instant) bool { return p.DoubtBelow(len(p.slots), now) }

// DoubtBelow tells whether there is such a claim on a position below that.
func (p *Pool) DoubtBelow(position int, now Instant) bool {
	for _, s := range p.doubted {
		if s.Position < position && s.inDoubt(now) {
			return true
		}
	}
	return false
}

func (p *Pool) knows(incarnation uint64) bool {
	return p.Registered() && incarnation == p.config.Incarnation
}

// slotAt is the slot at a position, made if need be.
func (p *Pool) slotAt(position int) *Slot {
	for position >= len(p.slots) {
		p.slots = append(p.slots, nil)
	}
	if p.slots[position] == nil {
		s := &Slot{Pool: p, Position: position}
		s.due = due{index: -1, of: s}
		p.slots[position] = s
	}
	return p.slots[position]
}

// reindex brings the index of live slots up to date with one slot.
func (p *Pool) reindex(s *Slot) {
	p.recount(s)
	if s.Live() {
		p.live.put(s.Position)
	} else {
		p.live.drop(s.Position)
	}
	if s.Stale() != s.hurried && !s.stray {
		s.stray = true
		p.strays = append(p.strays, s)
	}
}

// settle forgets the doubts that have been cleared up. A claim that holds no slot
// for now is kept in mind: in a named pool its terms may yet come into force, or
// its session come to be seen.
func (p *Pool) settle(now Instant) {
	if len(p.doubted) == 0 {
		return
	}
	keep := p.doubted[:0]
	for _, s := range p.doubted {
		if s.doubtful(now) {
			keep = append(keep, s)
		}
	}
	clear(p.doubted[len(keep):])
	p.doubted = keep
}

// empty tells whether nothing at all is known of the pool.
func (p *Pool) empty() bool {
	if p.ConfigRevision != 0 || p.line.first != nil {
		return false
	}
	for _, s := range p.slots {
		if s != nil && s.Revision != 0 {
			return false
		}
	}
	return true
}

// Lease is the live slot of a lease, or nil.
func (p *Pool) Lease(lease entry.Hash) *Slot {
	for _, s := range p.slots {
		if s != nil && s.Live() && subtle.ConstantTimeCompare(s.Value.Lease[:], lease[:]) == 1 {
			return s
		}
	}
	return nil
}
