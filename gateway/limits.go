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

func (g *Gateway) limitMetrics() []prometheus.Collector {
	total := func() int64 { refused, _ := g.cfg.Lending.Waits.Refused(); return refused }
	perIP := func() int64 { _, refused := g.cfg.Lending.Waits.Refused(); return refused }
	return []prometheus.Collector{
		gaugeOf("kvslots_http_connections", "Open connections of HTTP clients.", nil, func() float64 { return float64(g.connections.count()) }),
		LimitRefusals(wire.MaxConnections.Name, g.connections.refused.Load),
		LimitRefusals(wire.MaxConnectionsPerIP.Name, g.connections.refusedPerIP.Load),
		LimitRefusals(wire.StatusOf(wire.ErrMaxWaitersTotal).Name, total),
		LimitRefusals(wire.StatusOf(wire.ErrMaxWaitersPerIP).Name, perIP),
		LimitRefusals("http_rate_limit", g.limited.Load),
	}
}

// LimitRefusals returns the metric of what a limit has refused, for Config.Collectors.
func LimitRefusals(limit string, count func() int64) prometheus.Collector {
	return counterOf("kvslots_limit_refusals_total", "Connections and requests that a limit of this gateway has refused.",
		prometheus.Labels{"limit": limit}, func() float64 { return float64(count()) })
}
