package bench

import (
	"maps"
	"time"

	"github.com/HdrHistogram/hdrhistogram-go"
)

type Sample struct {
	Operations int64 // number of operations that succeeded
	Errors     int64 // number of operations that failed
	FirstError error // of the first operation that failed, or nil
	Elapsed    time.Duration
	Latency    *hdrhistogram.Histogram // of the operations that succeeded; nil if the workload measures none
	Extra      map[string]float64      // other figures of the workload, by name, with the unit in the name
}

func (s Sample) PerSecond() float64 {
	if s.Elapsed <= 0 {
		return 0
	}
	return float64(s.Operations) / s.Elapsed.Seconds()
}

// Values returns the sample's figures by name: per_second, the percentiles in
// microseconds, and Extra.
func (s Sample) Values() map[string]float64 {
	values := map[string]float64{}
	if s.Operations > 0 {
		values["per_second"] = s.PerSecond()
	}
	if s.Latency != nil && s.Latency.TotalCount() > 0 {
		for name, p := range percentiles {
			values[name] = microseconds(percentile(s.Latency, p))
		}
	}
	maps.Copy(values, s.Extra)
	return values
}

var percentiles = map[string]float64{"p50_us": 50, "p90_us": 90, "p99_us": 99, "p999_us": 99.9, "max_us": 100}

func microseconds(d time.Duration) float64 { return float64(d) / float64(time.Microsecond) }
