package bench

import (
	"sync"
	"time"

	"github.com/HdrHistogram/hdrhistogram-go"
)

const (
	shortestLatency = 100 * time.Nanosecond
	longestLatency  = 10 * time.Minute
	latencyDigits   = 3
)

func newHistogram() *hdrhistogram.Histogram {
	return hdrhistogram.New(int64(shortestLatency), int64(longestLatency), latencyDigits)
}

// record counts a latency. One outside the range counts as the range's nearest end.
func record(h *hdrhistogram.Histogram, d time.Duration) {
	_ = h.RecordValue(int64(min(max(d, 0), longestLatency))) // cannot fail within the range
}

// percentile returns the latency that p percent of all latencies do not exceed, for p
// of 0 … 100, or 0 if the histogram is empty.
func percentile(h *hdrhistogram.Histogram, p float64) time.Duration {
	return time.Duration(h.ValueAtPercentile(p))
}

// recorderShards is the number of histograms over which concurrent clients are spread.
const recorderShards = 16

type recorder struct {
	shards [recorderShards]struct {
		mu        sync.Mutex
		latencies *hdrhistogram.Histogram // nil before the first latency
	}
}

func (r *recorder) record(client int, d time.Duration) {
	s := &r.shards[client%recorderShards]
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.latencies == nil {
		s.latencies = newHistogram()
	}
	record(s.latencies, d)
}

// histogram returns all latencies. It must be called after all clients have ended.
func (r *recorder) histogram() *hdrhistogram.Histogram {
	all := newHistogram()
	for i := range r.shards {
		if s := r.shards[i].latencies; s != nil {
			all.Merge(s)
		}
	}
	return all
}
