package metrics

import "github.com/prometheus/client_golang/prometheus"

// Limit returns the metric of what a limit has refused.
func Limit(name string, count func() int64) prometheus.Collector {
	return Counter("kvslots_limit_refusals_total", "Connections and requests that a limit of this gateway has refused.",
		prometheus.Labels{"limit": name}, func() float64 { return float64(count()) })
}

// Gauge returns a metric whose value is asked for at each scrape.
func Gauge(name, help string, labels prometheus.Labels, value func() float64) prometheus.Collector {
	return prometheus.NewGaugeFunc(prometheus.GaugeOpts{Name: name, Help: help, ConstLabels: labels}, value)
}

// Counter is like Gauge, for a value that does not fall.
func Counter(name, help string, labels prometheus.Labels, value func() float64) prometheus.Collector {
	return prometheus.NewCounterFunc(prometheus.CounterOpts{Name: name, Help: help, ConstLabels: labels}, value)
}

// OneIf returns 1 if a condition is true, and otherwise 0.
func OneIf(condition bool) float64 {
	if condition {
		return 1
	}
	return 0
}
