// Package metrics has the names that Prometheus sees for what other packages count: stores,
// connections to NATS, flushes of an embedded server, and limits. The collectors are for
// gateway.Config.Collectors.
package metrics
