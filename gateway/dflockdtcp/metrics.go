package dflockdtcp

import (
	"github.com/prometheus/client_golang/prometheus"

	"github.com/kvslots/kvslots/gateway/metrics"
)

type serverMetrics struct {
	duration   *prometheus.HistogramVec
	collectors []prometheus.Collector
}

func newMetrics(s *Server) *serverMetrics {
	m := &serverMetrics{duration: prometheus.NewHistogramVec(prometheus.HistogramOpts{
		Name:    "kvslots_tcp_request_duration_seconds",
		Help:    "Time from a request's last line to its reply, the wait for a slot included. Reply none means that there was no reply.",
		Buckets: []float64{.0005, .001, .0025, .005, .01, .025, .05, .1, .25, .5, 1, 2.5, 5, 10, 30, 60},
	}, []string{"command", "reply"})}
	m.duration.WithLabelValues("l", replyOK) // exported as 0, for rates
	m.collectors = []prometheus.Collector{m.duration,
		metrics.Gauge("kvslots_tcp_connections", "Open connections of clients of dflockd's TCP protocol.", nil, func() float64 { return float64(s.connections.Load()) }),
	}
	return m
}
