package rules

import (
	"slices"

	"github.com/kvslots/kvslots/kvslots/internal/entry"
)

// Pool is one pool in the view. A nil *Pool is a pool that the view does not know.
type Pool struct {
	ID entry.Hash
	configuration
	usage
	endedKeys

	slots      []*Slot              // by position; nil where the key is absent
	leases     map[entry.Hash]*Slot // the taken slots by lease; nil for a small pool
	doubles    bool                 // two slots have named one lease; leases has one of them
	live       positions            // of the live slots
	requests   requests
	places     map[entry.Hash]*Ticket // the tickets that are kept for repeats, by their request keys; nil: none
	doubtUntil Instant                // no claim is in doubt from then on
	line       line
	unsettled  []*Slot // taken slots that scheduleOrphans has to look at
	released   releases
	expired    *expiries // nil: none
	touched    bool
	share      share
	member     [kinds]int // index in each of the view's sets, from 1; 0: not in it
}

type configuration struct {
	Config entry.ConfigValue // zero if the key has no value, or a corrupt one
	cfg    record
}

type usage struct {
	idle      deadline   // the pool's element in idleIn
	idleIn    *IdlePools // the queue that the pool is in; nil: none
	idleSince Instant    // since when the pool has been idle
}

// Exists reports whether the pool, registered or named, exists: its configuration has a value.
func (p *Pool) Exists() bool { return p != nil && p.Config.Generation != 0 }

// inForce returns the configuration of a pool that exists, or a zero one for any other.
func (p *Pool) inForce() *entry.ConfigValue {
	if !p.Exists() {
		return &noConfig
	}
	return &p.Config
}

var noConfig entry.ConfigValue

// Generation returns the pool's generation, or 0 if it does not exist.
func (p *Pool) Generation() uint64 { return p.inForce().Generation }

// Count returns the number of slots that may be taken, with those that single positions out of
// service have: 0 if the pool does not exist, is being closed, or is out of service.
func (p *Pool) Count() int {
	if p.Closing() || p.inForce().Paused() {
		return 0
	}
	return p.Size()
}

// Size returns the number of slots, also while none may be taken; 0 if the pool does not
// exist.
func (p *Pool) Size() int { return p.inForce().Count }

// OutOfService returns why the whole pool is out of service, if it is.
func (p *Pool) OutOfService() (out entry.Out, is bool) { return p.inForce().OutAt(entry.WholePool) }

func (p *Pool) Paused() bool { return p.inForce().Paused() }

func (p *Pool) Closing() bool { return p.inForce().Closing }

func (p *Pool) Terms() entry.Terms { return p.inForce().Terms }

// InUse returns the number of live slots. It may exceed Count.
func (p *Pool) InUse() int {
	if p == nil {
		return 0
	}
	return p.live.len()
}

// Out returns the number of slots that are out of service and not live.
func (p *Pool) Out() int {
	if p.inForce().Paused() {
		return max(0, p.Size()-p.InUse())
	}
	return p.outBelow(p.Size())
}

// outBelow counts the single positions below i that are out of service and not live.
func (p *Pool) outBelow(i int) int {
	n := 0
	for _, o := range p.inForce().Out {
		if o.Position != entry.WholePool && o.Position < i && !p.live.has(o.Position) {
			n++
		}
	}
	return n
}

// free returns the number of free permits. It is negative if more slots are live than fit.
func (p *Pool) free() int {
	count := p.Count()
	return count - p.InUse() - p.outBelow(count)
}

// nextFree returns the lowest position from i on that is neither live nor out of service.
func (p *Pool) nextFree(i int) int {
	for i = p.live.nextFree(i); ; i = p.live.nextFree(i + 1) {
		if _, out := p.inForce().OutAt(i); !out {
			return i
		}
	}
}

// Slot returns the slot at a position, or nil if its key is absent.
func (p *Pool) Slot(position int) *Slot {
	if p == nil || position >= len(p.slots) {
		return nil
	}
	return p.slots[position]
}

// keys returns the number of keys that the pool has in the bucket.
func (p *Pool) keys() int {
	n := 1 + len(p.line.byKey)
	for _, s := range p.slots {
		if s != nil {
			n++
		}
	}
	return n
}

func (p *Pool) Slots(yield func(*Slot) bool) {
	for _, s := range p.slots {
		if s != nil && s.Taken && !yield(s) {
			return
		}
	}
}

// maxUnindexed is the number of positions above which a pool keeps an index by lease.
const maxUnindexed = 16

// Lease returns the live slot of a lease, or nil. If fence is not 0, the slot must have
// that fence, since two slots may name one lease.
func (p *Pool) Lease(lease entry.Hash, fence uint64) *Slot {
	if p == nil {
		return nil
	}
	matches := func(s *Slot) bool { // of hashes: the time of a comparison reveals no id
		return s != nil && s.Live() && s.Value.Lease == lease && (fence == 0 || s.Fence == fence)
	}
	if p.leases != nil {
		if s := p.leases[lease]; matches(s) {
			return s
		}
		if !p.doubles {
			return nil
		}
	}
	for _, s := range p.slots {
		if matches(s) {
			return s
		}
	}
	return nil
}

func (p *Pool) slotAt(position int) *Slot {
	for position >= len(p.slots) {
		p.slots = append(p.slots, nil)
	}
	if p.slots[position] == nil {
		s := &Slot{Pool: p, Position: position}
		s.init(s)
		p.slots[position] = s
	}
	if p.leases == nil && len(p.slots) > maxUnindexed {
		p.leases = map[entry.Hash]*Slot{}
		for s := range p.Slots {
			p.index(s)
		}
	}
	return p.slots[position]
}

// index adds a slot to the index by lease. Two peers may claim for one enqueued ticket,
// and so for one lease; either claim may be the one that stays.
func (p *Pool) index(s *Slot) {
	if p.leases == nil {
		return
	}
	if o := p.leases[s.Value.Lease]; o != nil && o != s {
		p.doubles = true
	}
	p.leases[s.Value.Lease] = s
}

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

// reindex updates the set of live slots when one slot may have changed.
func (p *Pool) reindex(s *Slot) {
	if s.Live() {
		p.live.put(s.Position)
	} else {
		p.live.drop(s.Position)
	}
	if s.Taken {
		p.unsettled = append(p.unsettled, s)
	}
}

// InDoubt reports whether the pool has a claim that is in doubt.
func (p *Pool) InDoubt(now Instant) bool {
	return p != nil && now < p.doubtUntil &&
		slices.ContainsFunc(p.slots, func(s *Slot) bool { return s != nil && s.InDoubt(now) })
}

// outHolder returns the origin that uses a name since something of it is out of service; zero: none.
func (p *Pool) outHolder() (origin entry.Hash) {
	if cfg := p.inForce(); cfg.Named() {
		origin = cfg.OutOrigin
	}
	return origin
}

// Expired returns how many leases have expired within ExpiryMemory, as far as the view has seen.
func (p *Pool) Expired(now Instant) int {
	if p == nil || p.expired == nil {
		return 0
	}
	return p.expired.count(now)
}

// ReleasedBy reports whether an owner released the lock within the last
// ReleaseMemory.
func (p *Pool) ReleasedBy(owner string, now Instant) bool {
	return p != nil && p.released.by(owner, now)
}
