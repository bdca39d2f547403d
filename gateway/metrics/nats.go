package metrics

import (
	"time"

	"github.com/nats-io/nats.go"
	"github.com/prometheus/client_golang/prometheus"
)

// Connections returns the metrics of connections to NATS. The keys of the map are the values
// of the label "connection".
func Connections(connections map[string]*nats.Conn) prometheus.Collector {
	all := prometheus.NewRegistry()
	for name, nc := range connections {
		label := prometheus.Labels{"connection": name}
		all.MustRegister(
			Gauge("kvslots_nats_connected", "1 while the connection to NATS is up, else 0.", label, func() float64 { return OneIf(nc.IsConnected()) }),
			Counter("kvslots_nats_reconnects_total", "Times that the connection to NATS came back.", label, func() float64 { return float64(nc.Stats().Reconnects) }),
		)
	}
	return all
}

// Flushes are the metrics of an embedded server that flushes writes in groups.
type Flushes struct {
	prometheus.Collector // of both

	duration, callers prometheus.Histogram
}

// NewFlushes returns Flushes that have counted no flush yet.
func NewFlushes() *Flushes {
	m := &Flushes{
		duration: prometheus.NewHistogram(prometheus.HistogramOpts{
			Name:    "kvslots_flush_duration_seconds",
			Help:    "Duration of a flush for which answers waited.",
			Buckets: []float64{.0001, .00025, .0005, .001, .0025, .005, .01, .025, .05, .1, .25, .5, 1, 2.5, 5, 10},
		}),
		callers: prometheus.NewHistogram(prometheus.HistogramOpts{
			Name:    "kvslots_flush_batches",
			Help:    "Batches of answers that waited for the same flush.",
			Buckets: prometheus.ExponentialBuckets(1, 2, 12),
		}),
	}
	both := prometheus.NewRegistry()
	both.MustRegister(m.duration, m.callers)
	m.Collector = both
	return m
}

// Flushed counts a flush. It is a natsembed.Config.Flushed.
func (m *Flushes) Flushed(took time.Duration, callers int) {
	m.duration.Observe(took.Seconds())
	m.callers.Observe(float64(callers))
}
