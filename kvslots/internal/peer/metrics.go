package peer

import (
	"math/bits"
	"time"

	"github.com/kvslots/kvslots/kvslots/internal/entry"
	"github.com/kvslots/kvslots/kvslots/internal/rules"
)

// Counters are counts for metrics and tests. They only grow.
type Counters struct {
	Claims    uint64 // sent to take a slot
	Voids     uint64 // claims that were written and are void
	Conflicts uint64 // writes that were refused because their key had changed
	Grants    uint64
	Expiries  ByUse[uint64] // leases that this peer ended because their time was over
	Evictions ByUse[uint64] // leases that this peer ended for an operator
	IdlePools uint64        // pools that this peer unregistered because nothing used them
	Writes    uint64        // messages sent, with those that were sent again
	Resent    uint64        // messages sent again
	Barriers  uint64
	Skips     uint64 // entries that a catch-up did not find, since they were overwritten
	Rebuilds  uint64 // of the view
	CatchUps  uint64 // catch-ups, which check the view against the stream

	Wrote  Durations        // from the first sending of a write to its outcome
	Read   Durations        // from a read barrier to the view that has reached it
	Leased ByUse[Durations] // how long the leases lasted that this peer ended: returned, released, expired or evicted
}

// ByUse is a measure of leases by what they were taken for. The entry of a lease says that, so the
// peer need not have granted it.
type ByUse[T any] struct {
	Pools    T // of registered pools
	Sessions T // locks and semaphores of client sessions
	Owned    T // locks that an owner held, and no session
}

func (b *ByUse[T]) of(lease *entry.SlotValue) *T {
	switch {
	case !lease.Session.IsZero():
		return &b.Sessions
	case lease.Owner != "":
		return &b.Owned
	}
	return &b.Pools
}

// Gauges are measures of a peer and of its view at one instant.
type Gauges struct {
	Pools, Named   rules.Totals // of the registered pools, and of the named pools in use
	Sessions       int          // client sessions that are alive
	Peers          int          // peers that are alive, this one included
	Waiting        int          // tickets that stand in a line
	OldestWait     time.Duration
	WritesInFlight int    // without an outcome
	Revision       uint64 // of the view
}

// Durations is a histogram of durations. The bound of each bucket is twice that of the
// one before; Bound returns it. Durations that are longer than all bounds are only in
// Count and Sum.
type Durations struct {
	Buckets [30]uint64 // durations up to the bound that are longer than the one before
	Count   uint64
	Sum     time.Duration
}

const firstBound = 128 * time.Microsecond

// Bound returns the bound of the bucket of index i: 128 µs, and 19 hours for the last.
func (*Durations) Bound(i int) time.Duration { return firstBound << i }

func (h *Durations) add(d time.Duration) {
	h.Count++
	h.Sum += d
	if i := bits.Len64(uint64(max(0, d-1) / firstBound)); i < len(h.Buckets) {
		h.Buckets[i]++
	}
}
