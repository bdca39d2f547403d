package gateway

import (
	"context"
	"errors"
	"net/http"
	"runtime"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/collectors"
	"github.com/prometheus/client_golang/prometheus/promhttp"

	"github.com/kvslots/kvslots/gateway/internal/ops"
	"github.com/kvslots/kvslots/gateway/metrics"
	"github.com/kvslots/kvslots/kvslots/wire"
)

// httpMetrics are the gateway's own metrics and those of Config.Collectors (README.md,
// "Health, readiness and metrics"). No label contains a pool, a key, a lease or a session.
//
// Each gateway has its own registry, so that a process can run several gateways.
type httpMetrics struct {
	registry *prometheus.Registry
	duration *prometheus.HistogramVec // its count is the number of requests
	failures *prometheus.CounterVec
}

func newMetrics(g *Gateway) *httpMetrics {
	m := &httpMetrics{
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
		metrics.Gauge("kvslots_waiting_borrowers", "Requests at this gateway that may be granted something and are not answered yet.", nil,
			func() float64 { return float64(g.cfg.Lending.Open()) }),
		metrics.Gauge("kvslots_ready", "1 if /ready answers 200, else 0.", nil, func() float64 {
			code, _ := g.readiness()
			return metrics.OneIf(code == http.StatusOK)
		}),
		metrics.Gauge("kvslots_build_info", "Always 1; the labels say what runs.",
			prometheus.Labels{"version": g.cfg.Version, "goversion": runtime.Version()}, func() float64 { return 1 }),
		collectors.NewGoCollector(),
		collectors.NewProcessCollector(collectors.ProcessCollectorOpts{}),
	)
	return m
}

// serveMetrics answers with the metrics, in the client's turn: see ops.Reads. Its other reads do not count.
func (g *Gateway) serveMetrics(w http.ResponseWriter, r *http.Request) {
	gathered, err := inTurn(g.cfg.Lending, r, g.metrics.registry.Gather)
	if errors.Is(err, wire.ErrMaxReads) {
		w.Header().Set(wire.RetryAfterHeader, "1")
		g.fail(w, r, wire.RateLimited)
		return
	}
	promhttp.HandlerFor(prometheus.GathererFunc(gathered), promhttp.HandlerOpts{}).ServeHTTP(w, r)
}

// inTurn returns what returns the outcome of gather. It is generic, since the type of what is gathered has a package of its own.
func inTurn[F any](l *Lending, r *http.Request, gather func() (F, error)) (gathered func() (F, error), err error) {
	type scrape struct{}
	found, err := l.Read(r.Context(), "metrics "+ops.Origin(r.RemoteAddr), scrape{}, func(context.Context) (any, error) { return gather() })
	return func() (F, error) {
		families, _ := found.(F)
		return families, err
	}, err
}

func (g *Gateway) limitMetrics() []prometheus.Collector {
	waits := &g.cfg.Lending.Waits
	return []prometheus.Collector{
		metrics.Gauge("kvslots_http_connections", "Open connections of HTTP clients.", nil, func() float64 { return float64(g.connections.count()) }),
		metrics.Limit(wire.MaxConnections.Name, g.connections.all.Refused.Load),
		metrics.Limit(wire.MaxConnectionsPerIP.Name, g.connections.all.RefusedPerIP.Load),
		metrics.Limit(wire.StatusOf(wire.ErrMaxWaitersTotal).Name, waits.Refused.Load),
		metrics.Limit(wire.StatusOf(wire.ErrMaxWaitersPerIP).Name, waits.RefusedPerIP.Load),
		metrics.Limit("http_rate_limit", g.limited.Load),
	}
}
