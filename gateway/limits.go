package gateway

import (
	"github.com/prometheus/client_golang/prometheus"

	"github.com/kvslots/kvslots/gateway/internal/ops"
	"github.com/kvslots/kvslots/kvslots/wire"
)

// WaitLimits are the limits of requests that wait at a gateway at once, for
// Lending.Waits.Limit: Total over all transports, and PerIP of one client address over
// HTTP, for IPv6 of one /64. 0 means no limit.
type WaitLimits = ops.WaitLimits

// limitMetrics returns the metrics of the gateway's limits.
func (g *Gateway) limitMetrics() []prometheus.Collector {
	total := func() int64 { refused, _ := g.cfg.Lending.Waits.Refused(); return refused }
	perIP := func() int64 { _, refused := g.cfg.Lending.Waits.Refused(); return refused }
	return []prometheus.Collector{
		gaugeOf("kvslots_http_connections", "Open connections of HTTP clients.", nil, func() float64 { return float64(g.connections.count()) }),
		refusedBy(wire.MaxConnections.Name, g.connections.refused.Load),
		refusedBy(wire.MaxConnectionsPerIP.Name, g.connections.refusedPerIP.Load),
		refusedBy(wire.StatusOf(wire.ErrMaxWaitersTotal).Name, total),
		refusedBy(wire.StatusOf(wire.ErrMaxWaitersPerIP).Name, perIP),
		refusedBy("http_rate_limit", g.limited.Load),
	}
}

func refusedBy(limit string, count func() int64) prometheus.Collector {
	return counterOf("kvslots_limit_refusals_total", "Connections and requests that a limit of this gateway has refused.",
		prometheus.Labels{"limit": limit}, func() float64 { return float64(count()) })
}
