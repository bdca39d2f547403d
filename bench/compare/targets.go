package main

import (
	"fmt"

	"github.com/kvslots/kvslots/bench"
)

const (
	transportLibrary = bench.TransportLibrary
	transportNATS    = "nats"
	transportHTTP    = "http"

	pairs       = "pairs"
	lastSlot    = "last-slot"
	handover    = "handover"
	manyPools   = "many-pools"
	manyWaiters = "many-waiters"
	expiry      = "expiry"

	bigPool       = 1000 // slots
	sharedClients = 64
	expiryLocks   = 200
)

// Target is a bound for a figure, and the measured figure. A ratio that is only shown has
// no bound.
type Target struct {
	Name    string     `json:"name"`
	Bound   float64    `json:"bound,omitempty"`
	AtMost  bool       `json:"at_most"` // false means at least the bound
	Unit    string     `json:"unit,omitempty"`
	Value   bench.Stat `json:"value"` // over the repetitions
	Met     bool       `json:"met"`   // whether the median meets the bound
	LeftOut string     `json:"left_out,omitempty"`
}

func (t Target) String() string {
	if t.LeftOut != "" {
		return fmt.Sprintf("left out %s: %s", t.Name, t.LeftOut)
	}
	if t.Bound == 0 {
		return fmt.Sprintf("ratio  %s: %.3g (%.3g … %.3g)", t.Name, t.Value.Median, t.Value.Min, t.Value.Max)
	}
	verdict, relation := "missed", "at least"
	if t.Met {
		verdict = "met   "
	}
	if t.AtMost {
		relation = "at most"
	}
	line := fmt.Sprintf("%s %s: %.3g (%.3g … %.3g)%s, wanted %s %g%s", verdict, t.Name,
		t.Value.Median, t.Value.Min, t.Value.Max, t.Unit, relation, t.Bound, t.Unit)
	if t.Unit != "" {
		line += fmt.Sprintf(", ratio %.2f", t.Value.Median/t.Bound)
	}
	return line
}

type figure struct {
	key  bench.Key
	name string
}

// rule defines a target: a bound for a figure, or for its ratio to another figure. Without a
// bound the ratio is only shown.
type rule struct {
	name   string
	bound  float64
	atMost bool
	unit   string
	scale  float64 // converts the figure to the unit; 0 means 1
	of     figure
	to     figure // the divisor; the zero figure means none
}

func pairRate(transport, sync string, clients int) figure {
	return figure{bench.Key{Workload: pairs, Transport: transport, Sync: sync, Clients: clients}, "per_second"}
}

func pairP50(transport, sync string, clients int) figure {
	return figure{bench.Key{Workload: pairs, Transport: transport, Sync: sync, Clients: clients}, "p50_us"}
}

func sized(workload, transport string, clients, size int, name string) figure {
	return figure{bench.Key{Workload: workload, Transport: transport, Sync: "interval", Clients: clients, Size: size}, name}
}

// rules returns all targets, which bench/README.md explains.
func rules() []rule {
	return []rule{
		{name: "library, sync always ÷ library with an fsync each, p50, 1 in flight", bound: 1.15, atMost: true,
			of: pairP50(transportLibrary, "always", 1), to: pairP50(limitLibraryEach, "always", 1)},
		{name: "library, sync always ÷ library with an fsync each, 64 in flight", bound: 5,
			of: pairRate(transportLibrary, "always", 64), to: pairRate(limitLibraryEach, "always", 64)},
		{name: "library, sync always ÷ library with an fsync each, 512 in flight", bound: 9,
			of: pairRate(transportLibrary, "always", 512), to: pairRate(limitLibraryEach, "always", 512)},
		{name: "NATS ÷ HTTP, hand-over p50, 1 waiter", bound: 1.5, atMost: true,
			of: sized(handover, transportNATS, 0, 1, "p50_us"), to: sized(handover, transportHTTP, 0, 1, "p50_us")},
		{name: "NATS ÷ two pings and the library, sync interval, 64 in flight", bound: 0.85,
			of: pairRate(transportNATS, "interval", 64), to: pairRate(limitPingLibrary, "interval", 64)},
		{name: "NATS ÷ $SRV.PING, requests, sync interval, 64 in flight",
			of: pairRate(transportNATS, "interval", 64), to: pairRate(limitPing, "", 64)},
		{name: "library ÷ raw, sync interval, 64 in flight", bound: 0.80,
			of: pairRate(transportLibrary, "interval", 64), to: pairRate(limitRaw, "interval", 64)},
		{name: "library ÷ raw, sync interval, 1 in flight", bound: 0.65,
			of: pairRate(transportLibrary, "interval", 1), to: pairRate(limitRaw, "interval", 1)},
		{name: "HTTP ÷ the library behind net/http, sync interval, 64 in flight", bound: 0.93,
			of: pairRate(transportHTTP, "interval", 64), to: pairRate(limitHTTPLibrary, "interval", 64)},
		{name: "HTTP ÷ the library behind net/http, sync always, 64 in flight", bound: 0.93,
			of: pairRate(transportHTTP, "always", 64), to: pairRate(limitHTTPLibrary, "always", 64)},
		{name: "HTTP ÷ empty handler, requests, sync interval, 64 in flight",
			of: pairRate(transportHTTP, "interval", 64), to: pairRate(limitHTTP, "", 64)},
		{name: "HTTP ÷ empty handler, requests, sync always, 64 in flight",
			of: pairRate(transportHTTP, "always", 64), to: pairRate(limitHTTP, "", 64)},
		{name: "borrow in a pool of 1,000 with 999 lent ÷ in a pool of 1, library, p50", bound: 1.2, atMost: true,
			of: sized(lastSlot, transportLibrary, 1, bigPool, "p50_us"), to: sized(lastSlot, transportLibrary, 1, 1, "p50_us")},
		{name: "throughput with 100,000 pools ÷ with 1, library", bound: 0.8,
			of: sized(manyPools, transportLibrary, sharedClients, 100_000, "per_second"),
			to: sized(manyPools, transportLibrary, sharedClients, 1, "per_second")},
		{name: "hand-over p50 with 1,000 waiters ÷ with 1, library", bound: 1.3, atMost: true,
			of: sized(handover, transportLibrary, 0, 1000, "p50_us"), to: sized(handover, transportLibrary, 0, 1, "p50_us")},
		{name: "hand-over p50 with 1,000 waiters ÷ with 1, HTTP", bound: 1.3, atMost: true,
			of: sized(handover, transportHTTP, 0, 1000, "p50_us"), to: sized(handover, transportHTTP, 0, 1, "p50_us")},
		{name: "claims per grant with 1,000 waiters, library", bound: 1.05, atMost: true,
			of: sized(handover, transportLibrary, 0, 1000, "claims_per_grant")},
		{name: "memory of each of 10,000 HTTP waiters", bound: 32, atMost: true, unit: " KiB",
			of: sized(manyWaiters, transportHTTP, 0, 10_000, "kib_per_waiter")},
		{name: "expiry to the next grant, library, p99", bound: 20, atMost: true, unit: " ms", scale: 1e-3,
			of: sized(expiry, transportLibrary, 0, expiryLocks, "p99_us")},
		{name: "durable pairs, library ÷ etcd's mutex, 64 in flight", bound: 3,
			of: pairRate(transportLibrary, "always", 64), to: pairRate("etcd mutex", "fsync", 64)},
		{name: "durable pairs, HTTP ÷ etcd's mutex, 64 in flight", bound: 1.5,
			of: pairRate(transportHTTP, "always", 64), to: pairRate("etcd mutex", "fsync", 64)},
		{name: "durable pairs, library ÷ Redis with appendfsync always, 64 in flight", bound: 0.5,
			of: pairRate(transportLibrary, "always", 64), to: pairRate("redis", "appendfsync always", 64)},
		{name: "durable pairs, library ÷ Redis with appendfsync always, 1 in flight", bound: 0.8,
			of: pairRate(transportLibrary, "always", 1), to: pairRate("redis", "appendfsync always", 1)},
	}
}

// judge compares the report with the rules. If a row for a target is missing and all
// workloads were to be measured, the target has the reason in LeftOut; in a run of some
// workloads, judge omits the target.
func judge(r *bench.Report, cfg bench.Config) []Target {
	targets := []Target{}
	for _, rule := range rules() {
		t := rule.judge(r)
		if t.LeftOut == "" || len(cfg.Workloads) == 0 || len(cfg.Workloads) == len(bench.WorkloadNames()) {
			targets = append(targets, t)
		}
	}
	return targets
}

func (r rule) judge(report *bench.Report) Target {
	t := Target{Name: r.name, Bound: r.bound, AtMost: r.atMost, Unit: r.unit}
	for _, f := range r.figures() {
		if row := report.Row(f.key); row == nil || row.Values[f.name] == (bench.Stat{}) {
			t.LeftOut = "not measured: " + f.key.String()
			return t
		}
	}
	values := r.values(report)
	if len(values) == 0 {
		t.LeftOut = "no repetition has measured both figures"
		return t
	}
	t.Value = bench.StatOf(values)
	t.Met = r.bound > 0 && t.Value.Median >= t.Bound
	if t.AtMost {
		t.Met = t.Value.Median <= t.Bound
	}
	return t
}

func (r rule) figures() []figure {
	if r.to == (figure{}) {
		return []figure{r.of}
	}
	return []figure{r.of, r.to}
}

// values returns a value for each repetition. A ratio is of two figures of the same
// repetition, which were measured shortly after each other.
func (r rule) values(report *bench.Report) (values []float64) {
	of := report.Row(r.of.key)
	for i, repetition := range of.Repetitions {
		v, ok := repetition[r.of.name]
		if r.scale != 0 {
			v *= r.scale
		}
		if r.to != (figure{}) {
			to := report.Row(r.to.key)
			divisor := 0.0
			if i < len(to.Repetitions) {
				divisor = to.Repetitions[i][r.to.name]
			}
			ok = ok && divisor > 0
			v /= divisor
		}
		if ok {
			values = append(values, v)
		}
	}
	return values
}
