package bench

import (
	"slices"
	"time"
)

// Latencies are durations, in any order.
type Latencies []time.Duration

// Percentile is the latency that p percent of all are not above, by the nearest
// rank; p is from 0 to 100. It is 0 when there are none.
func (l Latencies) Percentile(p float64) time.Duration {
	if len(l) == 0 {
		return 0
	}
	sorted := slices.Clone(l)
	slices.Sort(sorted)
	rank := int(p/100*float64(len(sorted))+0.999999) - 1
	return sorted[min(max(rank, 0), len(sorted)-1)]
}
