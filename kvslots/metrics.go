package kvslots

import (
	"github.com/kvslots/kvslots/kvslots/internal/bucket"
	"github.com/kvslots/kvslots/kvslots/internal/peer"
	"github.com/kvslots/kvslots/kvslots/internal/rules"
)

// Metrics are counters since Open, and gauges at one instant. The gauges of pools, slots,
// waiters and sessions cover the whole bucket, as this Store sees it; all other metrics
// cover this Store alone. Package gateway/metrics exports them to Prometheus, and
// gateway/README.md describes each.
//
// The counters, of type uint64, are Claims, Voids, Conflicts, Grants, IdlePools, Writes,
// Resent, Barriers, Skips, Rebuilds, CatchUps, Readings and Foreign, and those in
// Expiries. The Durations are Wrote, Read and Leased. The gauges are Pools and Named, of type
// Totals; Sessions, Waiting and WritesInFlight, of type int; Revision and LagRevisions, of
// type uint64; OldestWait and Lag, of type time.Duration.
type Metrics = bucket.Metrics

// Durations is a histogram of durations in Metrics. Buckets[i] counts those that are at
// most the time.Duration Bound(i) and longer than Bound(i−1); Count, of type uint64, and
// Sum, of type time.Duration, include all durations.
type Durations = peer.Durations

// Expiries counts the leases in Metrics that the Store ended because their time was over:
// those of registered Pools, of locks and semaphores of client Sessions, and of Owned locks.
type Expiries = peer.Expiries

// Totals are sums over pools in Metrics, of type int: the number of Pools, their slots
// (Capacity), and the slots InUse.
type Totals = rules.Totals

// Metrics returns the Store's metrics. Its cost grows with the number of waiting
// borrowers, not with the number of pools.
func (s *Store) Metrics() Metrics { return s.bucket.Metrics() }
