package gateway

import (
	"time"

	"github.com/nats-io/nats.go"
	"github.com/prometheus/client_golang/prometheus"
)

// ConnectionMetrics returns the metrics of connections to NATS, for Config.Collectors. The
// keys of the map are the values of the label "connection".
func ConnectionMetrics(connections map[string]*nats.Conn) prometheus.Collector {
	return connectionMetrics(connections)
}

type connectionMetrics map[string]*nats.Conn

var (
	natsConnected  = metricDesc("kvslots_nats_connected", "1 while the connection to NATS is up, else 0.", "connection")
	natsReconnects = metricDesc("kvslots_nats_reconnects_total", "Times that the connection to NATS came back.", "connection")
)

// Describe sends the description of each metric.
func (c connectionMetrics) Describe(to chan<- *prometheus.Desc) {
	to <- natsConnected
	to <- natsReconnects
}

// Collect looks at the connections.
func (c connectionMetrics) Collect(to chan<- prometheus.Metric) {
	for name, nc := range c {
		connected := 0.0
		if nc.IsConnected() {
			connected = 1
		}
		to <- prometheus.MustNewConstMetric(natsConnected, prometheus.GaugeValue, connected, name)
		to <- prometheus.MustNewConstMetric(natsReconnects, prometheus.CounterValue, float64(nc.Stats().Reconnects), name)
	}
}

// FlushMetrics are the metrics of an embedded server that flushes writes in groups, for
// Config.Collectors.
type FlushMetrics struct {
	duration prometheus.Histogram
	callers  prometheus.Histogram
}

// NewFlushMetrics returns FlushMetrics that have counted no flush yet.
func NewFlushMetrics() *FlushMetrics {
	return &FlushMetrics{
		duration: prometheus.NewHistogram(prometheus.HistogramOpts{
			Name:    "kvslots_flush_duration_seconds",
			Help:    "Time that a flush took for which answers waited.",
			Buckets: []float64{.0001, .00025, .0005, .001, .0025, .005, .01, .025, .05, .1, .25, .5, 1, 2.5, 5, 10},
		}),
		callers: prometheus.NewHistogram(prometheus.HistogramOpts{
			Name:    "kvslots_flush_batches",
			Help:    "Batches of answers that waited for the same flush.",
			Buckets: prometheus.ExponentialBuckets(1, 2, 12),
		}),
	}
}

// Flushed counts a flush. It is a natsembed.Config.Flushed.
func (m *FlushMetrics) Flushed(took time.Duration, callers int) {
	m.duration.Observe(took.Seconds())
	m.callers.Observe(float64(callers))
}

// Describe sends the description of each metric.
func (m *FlushMetrics) Describe(to chan<- *prometheus.Desc) {
	m.duration.Describe(to)
	m.callers.Describe(to)
}

// Collect sends the histograms.
func (m *FlushMetrics) Collect(to chan<- prometheus.Metric) {
	m.duration.Collect(to)
	m.callers.Collect(to)
}
