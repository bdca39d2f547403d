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

// Histogram counts latencies of 100 ns to 10 minutes with three significant digits.
// Latencies outside that range count as its nearest end. The zero Histogram is ready
// for use. A Histogram is not safe for concurrent use.
type Histogram struct{ counts *hdrhistogram.Histogram }

func (h *Histogram) init() {
	if h.counts == nil {
		h.counts = hdrhistogram.New(int64(shortestLatency), int64(longestLatency), latencyDigits)
	}
}

// Record counts one latency.
func (h *Histogram) Record(d time.Duration) {
	h.init()
	_ = h.counts.RecordValue(int64(min(max(d, 0), longestLatency))) // cannot fail within the range
}

// Merge adds the counts of another histogram.
func (h *Histogram) Merge(from *Histogram) {
	if from == nil || from.counts == nil {
		return
	}
	h.init()
	h.counts.Merge(from.counts)
}

// Count returns the number of recorded latencies.
func (h *Histogram) Count() int64 {
	if h == nil || h.counts == nil {
		return 0
	}
	return h.counts.TotalCount()
}

// Percentile returns the latency that p percent of all latencies do not exceed, for p
// of 0 … 100, or 0 if the histogram is empty.
func (h *Histogram) Percentile(p float64) time.Duration {
	if h.Count() == 0 {
		return 0
	}
	return time.Duration(h.counts.ValueAtPercentile(p))
}

// Max returns the longest latency, or 0 if the histogram is empty.
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

// Distribution returns the cumulative distribution in ascending order of latency.
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

// recorderShards is the number of histograms over which concurrent clients are spread.
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

// histogram returns the latencies recorded so far.
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
