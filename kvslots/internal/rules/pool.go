package rules

import (
	"crypto/subtle"

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
	unjudged []*claim             // claims that are not judged yet, in their order
	open     []*snapshot          // instants at which the view was not exact
	line     line
	spare    []*Ticket // memory for line.able
	strays   []*Slot   // slots that may hold nothing any more, since the last settle
	released []release
	touched  bool
	member   [sets]int // places in the world's sets, from 1
}

// configuration is what a pool's configuration says, and how it stands.
type configuration struct {
	ConfigRevision uint64            // of the last entry, marker or not; 0 when the key is absent
	config         entry.ConfigValue // zero where the key has no value, or a corrupt one
	configSet      bool              // the key has a value, readable or not
	configAt       Instant           // when that entry was seen
	life           life              // of the key
	mark           due               // until its marker has gone
	past           []past            // the last generations before
}

// usage is whether a named pool is in use.
type usage struct {
	used      bool    // it is held or waited for
	idle      due     // it is not used: since when it counts as that
	idleSince Instant // since when it has not been used
}

// past is a generation that was.
type past struct {
	generation uint64
	surely     uint64 // it was in force below this revision
	until      uint64 // and not from this one on
}

// maxPast bounds the generations that are remembered: long enough for a caller
// that still waits to hear about one.
const maxPast = 8

// Registered reports whether the pool exists.
func (p *Pool) Registered() bool { return p != nil && p.config.Generation != 0 && !p.config.Deleted }

// Generation is 0 where no pool is registered.
func (p *Pool) Generation() uint64 {
	if !p.Registered() {
		return 0
	}
	return p.config.Generation
}

// Count is the number of slots in force; 0 where no pool is registered.
func (p *Pool) Count() int {
	if !p.Registered() {
		return 0
	}
	return p.config.Count
}

// Terms are what a named pool was opened with; zero for another.
func (p *Pool) Terms() entry.Terms {
	if !p.Registered() {
		return entry.Terms{}
	}
	return p.config.Terms
}

// Config is the configuration as it stands.
func (p *Pool) Config() entry.ConfigValue { return p.config }

// ConfigSeen is when the configuration's last entry was seen.
func (p *Pool) ConfigSeen() Instant { return p.configAt }

// Had reports whether the pool was registered under that generation when the
// stream stood at the given revision, which the view has reached. It is not known
// where the view has skipped what may have ended the generation.
func (p *Pool) Had(generation, revision uint64) (had, known bool) {
	for _, past := range p.past {
		if past.generation == generation {
			had = revision < past.surely
			return had, had || revision >= past.until
		}
	}
	return generation != 0 && generation == p.Generation(), true
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
	for _, s := range p.doubted {
		if s.Position < position && s.InDoubt(now) {
			return true
		}
	}
	return false
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
		if s != nil && s.Live() && subtle.ConstantTimeCompare(s.Value.Lease[:], lease[:]) == 1 {
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
	if len(p.doubted) == 0 {
		return
	}
	keep := p.doubted[:0]
	for _, s := range p.doubted {
		if s.doubtful(now) && !contains(keep, s) {
			keep = append(keep, s)
		}
	}
	clear(p.doubted[len(keep):])
	p.doubted = keep
}

func contains(slots []*Slot, s *Slot) bool {
	for _, o := range slots {
		if o == s {
			return true
		}
	}
	return false
}

// empty reports whether nothing at all is known of the pool.
func (p *Pool) empty() bool {
	return p.ConfigRevision == 0 && len(p.line.byKey) == 0 && len(p.slots) == 0 && len(p.past) == 0
}
