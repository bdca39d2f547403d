package gateway

import (
	"net/http"
	"runtime"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/collectors"
	"github.com/prometheus/client_golang/prometheus/promhttp"

	"github.com/kvslots/kvslots/kvslots/wire"
)

// metrics are the gateway's own metrics and those of Config.Collectors (README.md,
// "Health, readiness and metrics"). No label contains a pool, a key, a lease or a session.
//
// Each gateway has its own registry, so that a process can run several gateways.
type metrics struct {
	registry *prometheus.Registry
	duration *prometheus.HistogramVec // its count is the number of requests
	failures *prometheus.CounterVec
}

func newMetrics(g *Gateway) *metrics {
	m := &metrics{
		registry: prometheus.NewRegistry(),
		duration: prometheus.NewHistogramVec(prometheus.HistogramOpts{
			Name: "kvslots_http_request_duration_seconds",
			Help: "Time from a request's header to its answer, the wait for a slot included. Status 0 means that there was no answer.",
			// A borrow that waits may take a minute; other requests take about as long as
			// a write to the disk.
			Buckets: []float64{.0005, .001, .0025, .005, .01, .025, .05, .1, .25, .5, 1, 2.5, 5, 10, 30, 60},
		}, []string{"method", "route", "status"}),
		failures: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "kvslots_http_refusals_total",
			Help: "Requests that the gateway refused before an API saw them, and requests whose handler panicked, by the error's name.",
		}, []string{"kind"}),
	}
	m.failures.WithLabelValues(wire.Internal.Name) // exported as 0, for alerts
	m.registry.MustRegister(
		m.duration,
		m.failures,
		g.cfg.Lending,
		gaugeOf("kvslots_waiting_borrowers", "Requests at this gateway that may be granted something and are not answered yet.", nil,
			func() float64 { return float64(g.cfg.Lending.Open()) }),
		gaugeOf("kvslots_ready", "1 if /ready answers 200, else 0.", nil, func() float64 {
			code, _ := g.readiness()
			return oneIf(code == http.StatusOK)
		}),
		gaugeOf("kvslots_build_info", "Always 1; the labels say what runs.",
			prometheus.Labels{"version": g.cfg.Version, "goversion": runtime.Version()}, func() float64 { return 1 }),
		collectors.NewGoCollector(),
		collectors.NewProcessCollector(collectors.ProcessCollectorOpts{}),
	)
	m.registry.MustRegister(g.cfg.Collectors...)
	return m
}

func gaugeOf(name, help string, labels prometheus.Labels, value func() float64) prometheus.Collector {
	return prometheus.NewGaugeFunc(prometheus.GaugeOpts{Name: name, Help: help, ConstLabels: labels}, value)
}

func counterOf(name, help string, labels prometheus.Labels, value func() float64) prometheus.Collector {
	return prometheus.NewCounterFunc(prometheus.CounterOpts{Name: name, Help: help, ConstLabels: labels}, value)
}

func oneIf(condition bool) float64 {
	if condition {
		return 1
	}
	return 0
}

func (m *metrics) handler() http.Handler {
	return promhttp.HandlerFor(m.registry, promhttp.HandlerOpts{Registry: m.registry})
}
