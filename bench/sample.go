package bench

import "time"

// Sample is what one repetition of a case has measured.
type Sample struct {
	Operations int64 // that succeeded
	Errors     int64 // operations that failed
	FirstError error // of those, for people; nil if there is none
	Elapsed    time.Duration
	Latency    *Histogram         // of the operations that succeeded; nil if the workload has none
	Extra      map[string]float64 // what else the workload measures, by a name with its unit
}

// PerSecond is the rate of the operations, or 0 if there is none.
func (s Sample) PerSecond() float64 {
	if s.Elapsed <= 0 {
		return 0
	}
	return float64(s.Operations) / s.Elapsed.Seconds()
}

// Values are the sample's figures by name: per_second, the percentiles in
// microseconds, and what the workload adds.
func (s Sample) Values() map[string]float64 {
	values := map[string]float64{}
	if s.Operations > 0 {
		values["per_second"] = s.PerSecond()
	}
	if s.Latency.Count() > 0 {
		for name, p := range percentiles {
			values[name] = microseconds(s.Latency.Percentile(p))
		}
		values["max_us"] = microseconds(s.Latency.Max())
	}
	for name, v := range s.Extra {
		values[name] = v
	}
	return values
}

var percentiles = map[string]float64{"p50_us": 50, "p90_us": 90, "p99_us": 99, "p999_us": 99.9}

func microseconds(d time.Duration) float64 { return float64(d) / float64(time.Microsecond) }
