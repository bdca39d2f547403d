package ops

import (
	"errors"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/kvslots/kvslots/kvslots"
	"github.com/kvslots/kvslots/kvslots/wire"
)

// Values of the label "api" of metrics.
const (
	APILibrary = "library" // HTTP, /l
	APIDflockd = "dflockd" // HTTP, /v1
	APIForrst  = "forrst"  // /rpc, over HTTP and over NATS
	APINATS    = "nats"    // the operations of /l and /v1 over NATS
)

// outcome is the result of a call, as metrics distinguish it.
type outcome uint8

const (
	outcomeNone outcome = iota
	outcomeGranted
	outcomeRefused // there was no slot
	outcomeReturned
	outcomeRenewed
	outcomeRegistered
)

// eventVectors are the metrics of the outcomes of calls, by API.
type eventVectors struct {
	counts []*prometheus.CounterVec // with the indexes of eventCounters
	errors *prometheus.CounterVec
	waits  *prometheus.HistogramVec
}

// eventCounters are the names and help texts of the counters. The constants below are its
// indexes.
var eventCounters = [...]prometheus.CounterOpts{
	grants:        {Name: "kvslots_grants_total", Help: "Leases granted: of pools, locks and semaphores."},
	refusals:      {Name: "kvslots_refusals_total", Help: "Borrows that would not wait and found no free slot."},
	timeouts:      {Name: "kvslots_timeouts_total", Help: "Borrows that waited in vain for a slot."},
	returns:       {Name: "kvslots_returns_total", Help: "Leases returned or released by a client."},
	renewals:      {Name: "kvslots_renewals_total", Help: "Leases renewed."},
	registrations: {Name: "kvslots_registrations_total", Help: "Pools registered, or registered again."},
}

const (
	grants = iota
	refusals
	timeouts
	returns
	renewals
	registrations
)

func newEventVectors() eventVectors {
	api := []string{"api"}
	v := eventVectors{
		errors: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "kvslots_errors_total",
			Help: "Requests answered with an error other than that there is no slot, by the error's name.",
		}, []string{"api", "kind"}),
		waits: prometheus.NewHistogramVec(prometheus.HistogramOpts{
			Name:    "kvslots_wait_duration_seconds",
			Help:    "Time from a borrow's arrival to its grant.",
			Buckets: []float64{.0005, .001, .0025, .005, .01, .025, .05, .1, .25, .5, 1, 2.5, 5, 10, 30, 60, 300, 900},
		}, api),
	}
	for _, opts := range eventCounters {
		v.counts = append(v.counts, prometheus.NewCounterVec(opts, api))
	}
	return v
}

// Describe sends the descriptions of the metrics of all APIs. With Collect it makes a
// Lending a prometheus.Collector.
func (v *eventVectors) Describe(to chan<- *prometheus.Desc) {
	v.each(func(c prometheus.Collector) { c.Describe(to) })
}

// Collect sends the metrics of all APIs.
func (v *eventVectors) Collect(to chan<- prometheus.Metric) {
	v.each(func(c prometheus.Collector) { c.Collect(to) })
}

func (v *eventVectors) each(do func(prometheus.Collector)) {
	for _, c := range v.counts {
		do(c)
	}
	do(v.errors)
	do(v.waits)
}

// Events counts the outcomes of calls of one API. A nil *Events counts nothing.
type Events struct {
	counts [len(eventCounters)]prometheus.Counter
	waits  prometheus.Observer
	errors *prometheus.CounterVec
}

// Events returns the Events of an API, or nil for a nil *Lending. Transports call it once,
// so that counting an event needs no look-up of its counter.
func (l *Lending) Events(api string) *Events {
	if l == nil {
		return nil
	}
	e := &Events{
		waits:  l.waits.WithLabelValues(api),
		errors: l.errors.MustCurryWith(prometheus.Labels{"api": api}),
	}
	for i, v := range l.counts {
		e.counts[i] = v.WithLabelValues(api)
	}
	for _, kind := range alarming {
		e.errors.WithLabelValues(kind)
	}
	return e
}

// alarming are the kinds of server errors. Their counters are exported as 0 before the
// first error: otherwise a rate would not include the first error.
var alarming = []string{wire.StatusOf(kvslots.ErrUnavailable).Name, wire.Internal.Name}

// Granted counts a grant to a caller that has waited for it for the given time.
func (e *Events) Granted(waited time.Duration) {
	if e != nil {
		e.counts[grants].Inc()
		e.waits.Observe(waited.Seconds())
	}
}

// NoSlot counts a borrow that found no slot within its wait, which may be 0.
func (e *Events) NoSlot(wait time.Duration) {
	if wait > 0 {
		e.inc(timeouts)
	} else {
		e.inc(refusals)
	}
}

// Returned counts a lease that its holder has returned.
func (e *Events) Returned() { e.inc(returns) }

func (e *Events) inc(of int) {
	if e != nil {
		e.counts[of].Inc()
	}
}

// Failed counts an answer with an error. kind is the error's name in a table: it must not
// contain text of the request.
func (e *Events) Failed(kind string) {
	if e != nil && kind != noSlot {
		e.errors.WithLabelValues(kind).Inc()
	}
}

// noSlot is counted by NoSlot.
var noSlot = wire.StatusOf(kvslots.ErrNoSlot).Name

// count counts the outcome of a call.
func (e *Events) count(call *Call, err error) {
	switch {
	case errors.Is(err, kvslots.ErrNoSlot) || call.outcome == outcomeRefused:
		e.NoSlot(call.wait)
	case err != nil:
	case call.outcome == outcomeGranted:
		e.Granted(time.Since(call.Arrived))
	case call.outcome == outcomeReturned:
		e.inc(returns)
	case call.outcome == outcomeRenewed:
		e.inc(renewals)
	case call.outcome == outcomeRegistered:
		e.inc(registrations)
	}
}
