package bench

import (
	"sync"
	"time"

	"github.com/HdrHistogram/hdrhistogram-go"
)

// The range of a Histogram and its precision.
const (
	shortestLatency = 100 * time.Nanosecond
	longestLatency  = 10 * time.Minute
	latencyDigits   = 3
)

// Histogram counts latencies of 100 ns to 10 minutes with three significant
// digits; what is beyond that range is counted at its end. The zero Histogram is
// ready for use. It is not safe for concurrent use.
type Histogram struct{ counts *hdrhistogram.Histogram }

func (h *Histogram) init() {
	if h.counts == nil {
		h.counts = hdrhistogram.New(int64(shortestLatency), int64(longestLatency), latencyDigits)
	}
}

// Record counts one latency.
func (h *Histogram) Record(d time.Duration) {
	h.init()
	_ = h.counts.RecordValue(int64(min(max(d, 0), longestLatency))) // in range by then
}

// Merge adds what another histogram has counted.
func (h *Histogram) Merge(from *Histogram) {
	if from == nil || from.counts == nil {
		return
	}
	h.init()
	h.counts.Merge(from.counts)
}

// Count returns how many latencies were recorded.
func (h *Histogram) Count() int64 {
	if h == nil || h.counts == nil {
		return 0
	}
	return h.counts.TotalCount()
}

// Percentile returns the latency that p percent of all do not exceed, 0 … 100.
// It is 0 when nothing was recorded.
func (h *Histogram) Percentile(p float64) time.Duration {
	if h.Count() == 0 {
		return 0
	}
	return time.Duration(h.counts.ValueAtPercentile(p))
}

// Max returns the longest latency, or 0 when nothing was recorded.
func (h *Histogram) Max() time.Duration {
	if h.Count() == 0 {
		return 0
	}
	return time.Duration(h.counts.Max())
}

// Point is one point of a cumulative distribution.
type Point struct {
	Latency time.Duration
	Share   float64 // of the latencies that do not exceed it, 0 … 1
}

// Distribution returns the cumulative distribution, by latency.
func (h *Histogram) Distribution() []Point {
	if h.Count() == 0 {
		return nil
	}
	var points []Point
	var seen int64
	for _, bar := range h.counts.Distribution() {
		if bar.Count == 0 {
			continue
		}
		seen += bar.Count
		points = append(points, Point{time.Duration(bar.To), float64(seen) / float64(h.Count())})
	}
	return points
}

// recorderShards keeps clients that record at the same time apart.
const recorderShards = 16

// recorder collects the latencies of several clients.
type recorder struct {
	shards [recorderShards]struct {
		mu        sync.Mutex
		latencies Histogram
	}
}

func (r *recorder) record(client int, d time.Duration) {
	s := &r.shards[client%recorderShards]
	s.mu.Lock()
	defer s.mu.Unlock()
	s.latencies.Record(d)
}

// histogram returns what was recorded up to now.
func (r *recorder) histogram() *Histogram {
	all := &Histogram{}
	for i := range r.shards {
		s := &r.shards[i]
		s.mu.Lock()
		all.Merge(&s.latencies)
		s.mu.Unlock()
	}
	return all
}
