package kvslots

import (
	"time"

	"github.com/kvslots/kvslots/kvslots/internal/access"
)

// Metrics are counters since Open, and gauges at one instant. The gauges of pools, slots,
// waiters and sessions cover the whole bucket, as this Store sees it; all other metrics
// cover this Store alone. Package gateway/metrics exports them to Prometheus.
type Metrics struct {
	Claims    uint64 // sent to take a slot
	Voids     uint64 // claims that were written and are void
	Conflicts uint64 // writes that were refused because their key had changed
	Grants    uint64
	Expiries  ByUse[uint64] // leases that the Store ended because their time was over
	Evictions ByUse[uint64] // leases that the Store ended for Evict
	IdlePools uint64        // pools that the Store unregistered because nothing used them
	Writes    uint64        // messages sent, with those that were sent again
	Resent    uint64        // messages sent again
	Barriers  uint64        // read barriers sent
	Readings  uint64        // of the bucket: the first one loads the view, and others catch up
	CatchUps  uint64        // catch-ups, which check the view against the stream
	Rebuilds  uint64        // of the view
	Skips     uint64        // entries that a catch-up did not find, since they were overwritten
	Foreign   uint64        // entries delivered that are not kvslots' own, or are corrupt

	Wrote  Durations        // from the first sending of a write to its outcome
	Read   Durations        // from a read barrier to the view that has reached it
	Leased ByUse[Durations] // how long the leases lasted that the Store ended: returned, released, expired or evicted

	Pools, Named   Totals // of the registered pools; of the locks and semaphores in use
	Sessions       int    // client sessions that are alive
	Peers          int    // Stores that are open on the bucket: gateways, and programs with the library
	Waiting        int    // borrowers that stand in a line
	OldestWait     time.Duration
	WritesInFlight int    // without an outcome
	Revision       uint64 // of the view

	LagRevisions uint64        // how far the view is behind the stream, as far as the server has said
	Lag          time.Duration // since the feed last delivered all that the server has shown
}

// ByUse is a measure of leases by what they were taken for.
type ByUse[T any] struct {
	Pools    T // of registered pools
	Sessions T // locks and semaphores of client sessions
	Owned    T // locks that an owner held, and no session: see LockOwned
}

// Totals are sums over pools: their number, their slots, and the slots in use.
type Totals struct{ Pools, Capacity, InUse int }

// Durations is a histogram. The bound of each bucket is twice that of the one before;
// durations that are longer than all bounds are only in Count and Sum.
type Durations struct {
	Buckets [30]uint64 // durations up to Bound(i) that are longer than Bound(i−1)
	Count   uint64
	Sum     time.Duration
}

// Bound returns the bound of the bucket of index i: 128 µs, and 19 hours for the last.
func (*Durations) Bound(i int) time.Duration { return 128 * time.Microsecond << i }

// Metrics returns the Store's metrics. Its cost grows with the number of waiting
// borrowers, not with the number of pools.
func (s *Store) Metrics() Metrics { return metricsOf(s.bucket.Metrics()) }

func metricsOf(m access.Metrics) Metrics {
	return Metrics{
		Claims: m.Claims, Voids: m.Voids, Conflicts: m.Conflicts, Grants: m.Grants, Expiries: ByUse[uint64](m.Expiries), Evictions: ByUse[uint64](m.Evictions), IdlePools: m.IdlePools,
		Writes: m.Writes, Resent: m.Resent, Barriers: m.Barriers,
		Readings: m.Readings, CatchUps: m.CatchUps, Rebuilds: m.Rebuilds, Skips: m.Skips, Foreign: m.Foreign,
		Wrote: Durations(m.Wrote), Read: Durations(m.Read),
		Leased: ByUse[Durations]{Durations(m.Leased.Pools), Durations(m.Leased.Sessions), Durations(m.Leased.Owned)},
		Pools:  Totals(m.Pools), Named: Totals(m.Named), Sessions: m.Sessions, Peers: m.Peers, Waiting: m.Waiting, OldestWait: m.OldestWait,
		WritesInFlight: m.WritesInFlight, Revision: m.Revision, LagRevisions: m.LagRevisions, Lag: m.Lag,
	}
}
