package kvslots

import (
	"github.com/kvslots/kvslots/kvslots/internal/bucket"
	"github.com/kvslots/kvslots/kvslots/internal/peer"
	"github.com/kvslots/kvslots/kvslots/internal/rules"
)

// Metrics are counts since Open and measures of one instant. Those of pools, slots,
// waiters and sessions are of the whole bucket, as this Store's view has it; the others
// are of this Store alone.
type Metrics = bucket.Metrics

// Durations is a histogram of durations in Metrics.
type Durations = peer.Durations

// Totals are sums over pools in Metrics.
type Totals = rules.Totals

// Metrics returns what a monitoring system may want to know of the Store. It takes time
// for each waiting borrower, and not for each pool.
func (s *Store) Metrics() Metrics { return s.bucket.Metrics() }
