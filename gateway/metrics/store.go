package metrics

import (
	"github.com/prometheus/client_golang/prometheus"

	"github.com/kvslots/kvslots/gateway/internal/ops"
	"github.com/kvslots/kvslots/kvslots"
)

// Store returns the metrics of a store. measure is kvslots.Store.Metrics; it is called once
// for each scrape.
func Store(measure func() kvslots.Metrics) prometheus.Collector {
	return storeMetrics{measure}
}

type storeMetrics struct{ measure func() kvslots.Metrics }

func (c storeMetrics) Describe(to chan<- *prometheus.Desc) {
	for _, s := range storeSeries {
		to <- s.desc
	}
}

func (c storeMetrics) Collect(to chan<- prometheus.Metric) {
	m := c.measure()
	for _, s := range storeSeries {
		s.collect(&m, s.desc, to)
	}
}

var storeSeries = []struct {
	desc    *prometheus.Desc
	collect collect
}{
	{metricDesc("kvslots_claims_total", "Writes sent to take a slot, also to take one again after a failure."),
		count(func(m *kvslots.Metrics) uint64 { return m.Claims })},
	{metricDesc("kvslots_void_claims_total", "Claims that were written, and granted nothing because another one came first."),
		count(func(m *kvslots.Metrics) uint64 { return m.Voids })},
	{metricDesc("kvslots_write_conflicts_total", "Writes refused because another peer had written the key."),
		count(func(m *kvslots.Metrics) uint64 { return m.Conflicts })},
	{metricDesc("kvslots_store_grants_total", "Leases that this gateway's store granted, over all APIs."),
		count(func(m *kvslots.Metrics) uint64 { return m.Grants })},
	{metricDesc("kvslots_expiries_total", "Leases that this gateway ended because their time was over, by the API of what they held, over HTTP or NATS.", "api"),
		byAPI(func(m *kvslots.Metrics) *kvslots.ByUse[uint64] { return &m.Expiries })},
	{metricDesc("kvslots_evictions_total", "Leases that this gateway ended for an operator, by the API of what they held, over HTTP or NATS.", "api"),
		byAPI(func(m *kvslots.Metrics) *kvslots.ByUse[uint64] { return &m.Evictions })},
	{metricDesc("kvslots_idle_pools_unregistered_total", "Pools that this gateway unregistered because nothing had used them for --pool-idle-ttl."),
		count(func(m *kvslots.Metrics) uint64 { return m.IdlePools })},
	{metricDesc("kvslots_writes_total", "Messages sent to the stream, with those that were sent again."),
		count(func(m *kvslots.Metrics) uint64 { return m.Writes })},
	{metricDesc("kvslots_resent_writes_total", "Messages sent again because no answer came."),
		count(func(m *kvslots.Metrics) uint64 { return m.Resent })},
	{metricDesc("kvslots_read_barriers_total", "Read barriers sent."),
		count(func(m *kvslots.Metrics) uint64 { return m.Barriers })},
	{metricDesc("kvslots_readings_total", "Readings of the bucket ordered: the first one loads the view, each further one catches up after the feed was interrupted."),
		count(func(m *kvslots.Metrics) uint64 { return m.Readings })},
	{metricDesc("kvslots_view_rebuilds_total", "Times that the view was dropped and built anew."),
		count(func(m *kvslots.Metrics) uint64 { return m.Rebuilds })},
	{metricDesc("kvslots_view_catch_ups_total", "Times that entries of the feed were missing, so that the view was caught up with the stream and checked against it."),
		count(func(m *kvslots.Metrics) uint64 { return m.CatchUps })},
	{metricDesc("kvslots_skipped_entries_total", "Entries that the feed has not delivered, and that were overwritten before a catch-up could read them."),
		count(func(m *kvslots.Metrics) uint64 { return m.Skips })},
	{metricDesc("kvslots_foreign_entries_total", "Entries in the bucket that are not of kvslots, or are corrupt."),
		count(func(m *kvslots.Metrics) uint64 { return m.Foreign })},

	{metricDesc("kvslots_pools", "Registered pools, and locks and semaphores (named) that are held or waited for, in the whole bucket.", "kind"),
		byKind(func(of kvslots.Totals) int { return of.Pools })},
	{metricDesc("kvslots_slots", "Slots of these pools, in the whole bucket.", "kind"),
		byKind(func(of kvslots.Totals) int { return of.Capacity })},
	{metricDesc("kvslots_slots_in_use", "Slots that are lent, in the whole bucket.", "kind"),
		byKind(func(of kvslots.Totals) int { return of.InUse })},
	{metricDesc("kvslots_sessions", "Client sessions that are alive, in the whole bucket."),
		gauge(func(m *kvslots.Metrics) float64 { return float64(m.Sessions) })},
	{metricDesc("kvslots_waiters", "Borrowers that stand in a line, in the whole bucket."),
		gauge(func(m *kvslots.Metrics) float64 { return float64(m.Waiting) })},
	{metricDesc("kvslots_oldest_waiter_age_seconds", "The longest time that a waiting borrower has waited, in the whole bucket; 0 if none waits."),
		gauge(func(m *kvslots.Metrics) float64 { return m.OldestWait.Seconds() })},
	{metricDesc("kvslots_writes_in_flight", "Writes without an outcome."),
		gauge(func(m *kvslots.Metrics) float64 { return float64(m.WritesInFlight) })},
	{metricDesc("kvslots_view_lag_revisions", "How many entries the view is behind the stream, as far as the server has said."),
		gauge(func(m *kvslots.Metrics) float64 { return float64(m.LagRevisions) })},
	{metricDesc("kvslots_view_lag_seconds", "Time since the server last showed that the view lacks nothing; up to three seconds on an idle stream."),
		gauge(func(m *kvslots.Metrics) float64 { return m.Lag.Seconds() })},

	{metricDesc("kvslots_write_duration_seconds", "Time from the first sending of a write to its outcome."),
		histogram(20, func(m *kvslots.Metrics) *kvslots.Durations { return &m.Wrote })},
	{metricDesc("kvslots_read_barrier_duration_seconds", "Time from the sending of a read barrier until the view has reached it."),
		histogram(20, func(m *kvslots.Metrics) *kvslots.Durations { return &m.Read })},
	{metricDesc("kvslots_lease_duration_seconds", "Duration of each lease that this gateway ended, by the API of what it held: returned, released, expired or evicted.", "api"), heldByAPI},
}

func metricDesc(name, help string, labels ...string) *prometheus.Desc {
	return prometheus.NewDesc(name, help, labels, nil)
}

type collect = func(m *kvslots.Metrics, desc *prometheus.Desc, to chan<- prometheus.Metric)

func count(of func(m *kvslots.Metrics) uint64) collect {
	return func(m *kvslots.Metrics, desc *prometheus.Desc, to chan<- prometheus.Metric) {
		to <- prometheus.MustNewConstMetric(desc, prometheus.CounterValue, float64(of(m)))
	}
}

func gauge(of func(m *kvslots.Metrics) float64) collect {
	return func(m *kvslots.Metrics, desc *prometheus.Desc, to chan<- prometheus.Metric) {
		to <- prometheus.MustNewConstMetric(desc, prometheus.GaugeValue, of(m))
	}
}

func byKind(of func(kvslots.Totals) int) collect {
	return func(m *kvslots.Metrics, desc *prometheus.Desc, to chan<- prometheus.Metric) {
		to <- prometheus.MustNewConstMetric(desc, prometheus.GaugeValue, float64(of(m.Pools)), "registered")
		to <- prometheus.MustNewConstMetric(desc, prometheus.GaugeValue, float64(of(m.Named)), "named")
	}
}

// byAPI returns a count of leases by API. The bucket says what a lease holds, but not over
// which transport the client took it, so none of them is of ops.APINATS.
func byAPI(of func(m *kvslots.Metrics) *kvslots.ByUse[uint64]) collect {
	return func(m *kvslots.Metrics, desc *prometheus.Desc, to chan<- prometheus.Metric) {
		for _, x := range eachUse(of(m)) {
			to <- prometheus.MustNewConstMetric(desc, prometheus.CounterValue, float64(*x.of), x.api)
		}
	}
}

func heldByAPI(m *kvslots.Metrics, desc *prometheus.Desc, to chan<- prometheus.Metric) {
	for _, x := range eachUse(&m.Leased) {
		to <- constHistogram(desc, x.of, 30, x.api)
	}
}

type use[T any] struct {
	api string
	of  *T
}

func eachUse[T any](b *kvslots.ByUse[T]) [3]use[T] {
	return [3]use[T]{{ops.APILibrary, &b.Pools}, {ops.APIDflockd, &b.Sessions}, {ops.APIForrst, &b.Owned}}
}

// histogram returns a histogram with the first of the buckets. Longer durations are in
// the bucket without a bound.
func histogram(buckets int, of func(m *kvslots.Metrics) *kvslots.Durations) collect {
	return func(m *kvslots.Metrics, desc *prometheus.Desc, to chan<- prometheus.Metric) {
		to <- constHistogram(desc, of(m), buckets)
	}
}

func constHistogram(desc *prometheus.Desc, h *kvslots.Durations, buckets int, labels ...string) prometheus.Metric {
	cumulated, bounds := uint64(0), make(map[float64]uint64, buckets)
	for i := range buckets {
		cumulated += h.Buckets[i]
		bounds[h.Bound(i).Seconds()] = cumulated
	}
	return prometheus.MustNewConstHistogram(desc, h.Count, max(0, h.Sum).Seconds(), bounds, labels...)
}
