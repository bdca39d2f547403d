package rules

import (
	"slices"

	"github.com/kvslots/kvslots/kvslots/internal/entry"
)

// Pool is what the view knows of one pool. A nil *Pool is one of which nothing is
// known.
type Pool struct {
	ID entry.Hash
	configuration
	usage

	slots    []*Slot              // by position; nil where the key is absent
	leases   map[entry.Hash]*Slot // an index of slots: the taken ones; nil for a small pool
	doubles  bool                 // two slots have named one lease: the index has one of them
	live     positions            // an index of slots: the lent ones
	doubted  []*Slot              // slots with claims that are not known to be good
	open     []*claim             // claims of instants at which the view was not exact, in their order: not judged yet
	line     line
	strays   []*Slot // slots that may hold nothing any more, since the last settle
	released []release
	touched  bool
	member   [sets]int // places in the world's sets, from 1
}

// configuration is what a pool's configuration says, and how it stands.
type configuration struct {
	ConfigSeen Instant           // when the last entry was seen
	Config     entry.ConfigValue // zero where the key has no value, or a corrupt one
	cfg        record
	past       []entry.Ended // the last generations before
}

// usage is whether a named pool is in use.
type usage struct {
	used      bool    // it is held or waited for
	idle      due     // it is not used: since when it counts as that
	idleSince Instant // since when it has not been used
}

// maxPast bounds the generations that are remembered: long enough for a caller
// that still waits to hear about one.
const maxPast = 8

// pastOf are the generations before, as a configuration tells them.
func pastOf(e *entry.Entry) []entry.Ended {
	list := slices.Clone(e.Config.Before[max(0, len(e.Config.Before)-maxPast):])
	for i := range list {
		if list[i].Until == 0 {
			list[i].Until = e.Revision
		}
	}
	if e.Config.Deleted {
		list = append(list, entry.Ended{Generation: e.Config.Generation, Until: e.Revision})
	}
	return list
}

// Before is what the next configuration has to tell, if it is of that generation.
func (p *Pool) Before(generation uint64) []entry.Ended {
	if p == nil {
		return nil
	}
	list := slices.Clone(p.past)
	if p.Generation() != 0 && p.Generation() != generation {
		list = append(list, entry.Ended{Generation: p.Generation()})
	}
	return list[max(0, len(list)-maxPast):]
}

// Registered reports whether the pool exists.
func (p *Pool) Registered() bool { return p != nil && p.Config.Generation != 0 && !p.Config.Deleted }

// inForce is the configuration of a registered pool, and zero for another.
func (p *Pool) inForce() *entry.ConfigValue {
	if !p.Registered() {
		return &unregistered
	}
	return &p.Config
}

var unregistered entry.ConfigValue

// Generation is 0 where no pool is registered.
func (p *Pool) Generation() uint64 { return p.inForce().Generation }

// Count is the number of slots in force; 0 where no pool is registered.
func (p *Pool) Count() int { return p.inForce().Count }

// Terms are what a named pool was opened with; zero for another.
func (p *Pool) Terms() entry.Terms { return p.inForce().Terms }

// Had reports whether the pool was registered under that generation when the
// stream stood at the given revision, which the view has reached. That is not known
// of a generation that is long past.
func (p *Pool) Had(generation, revision uint64) (had, known bool) {
	for _, past := range p.past {
		if past.Generation == generation {
			return revision < past.Until, true
		}
	}
	had = generation != 0 && generation == p.Generation()
	return had, had
}

// InUse is the number of live slots. It may exceed Count.
func (p *Pool) InUse() int {
	if p == nil {
		return 0
	}
	return p.live.len()
}

// Slot is the slot at a position, or nil where its key is absent.
func (p *Pool) Slot(position int) *Slot {
	if p == nil || position >= len(p.slots) {
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

// InDoubt reports whether there is a claim that its own peer may be about to
// withdraw.
func (p *Pool) InDoubt(now Instant) bool { return p != nil && p.DoubtBelow(len(p.slots), now) }

// DoubtBelow reports whether there is such a claim on a position below that.
func (p *Pool) DoubtBelow(position int, now Instant) bool {
	return slices.ContainsFunc(p.doubted, func(s *Slot) bool { return s.Position < position && s.InDoubt(now) })
}

// indexed is from how many positions on a pool keeps an index by lease.
const indexed = 16

// Lease is the live slot of a lease, or nil.
func (p *Pool) Lease(lease entry.Hash) *Slot {
	if p == nil {
		return nil
	}
	if p.leases != nil {
		if s := p.leases[lease]; s != nil && s.Live() {
			return s
		}
		if !p.doubles {
			return nil
		}
	}
	for _, s := range p.slots {
		if s != nil && s.Live() && s.Value.Lease == lease { // hashes: how long this takes tells nothing
			return s
		}
	}
	return nil
}

// slotAt is the slot at a position, made if need be.
func (p *Pool) slotAt(position int) *Slot {
	for position >= len(p.slots) {
		p.slots = append(p.slots, nil)
	}
	if p.slots[position] == nil {
		s := &Slot{Pool: p, Position: position}
		s.due.of, s.mark.of = s, s
		p.slots[position] = s
	}
	if p.leases == nil && len(p.slots) > indexed {
		p.leases = map[entry.Hash]*Slot{}
		for _, s := range p.slots {
			if s != nil && s.Taken {
				p.index(s)
			}
		}
	}
	return p.slots[position]
}

// index finds the slot by its lease from now on. Two peers may claim for one ticket, and
// so for one lease; either claim may be the one that stays.
func (p *Pool) index(s *Slot) {
	if p.leases == nil {
		return
	}
	if o := p.leases[s.Value.Lease]; o != nil && o != s {
		p.doubles = true
	}
	p.leases[s.Value.Lease] = s
}

// dropSlot forgets a position whose key is absent.
func (p *Pool) dropSlot(s *Slot) {
	p.slots[s.Position] = nil
	n := len(p.slots)
	for n > 0 && p.slots[n-1] == nil {
		n--
	}
	p.slots = p.slots[:n]
	if n == 0 {
		p.slots, p.leases, p.doubles, p.live = nil, nil, false, nil
	}
}

// reindex brings the index of live slots up to date with one slot.
func (p *Pool) reindex(s *Slot) {
	if s.Live() {
		p.live.put(s.Position)
	} else {
		p.live.drop(s.Position)
	}
	if s.Taken {
		p.strays = append(p.strays, s)
	}
}

// settle forgets the doubts that have been cleared up.
func (p *Pool) settle(now Instant) {
	p.doubted = slices.DeleteFunc(p.doubted, func(s *Slot) bool { return !s.doubtful(now) })
}
