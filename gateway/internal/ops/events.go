package ops

import (
	"errors"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/kvslots/kvslots/kvslots"
	"github.com/kvslots/kvslots/kvslots/wire"
)

// The APIs that metrics tell apart.
const (
	APILibrary = "library" // HTTP, /l
	APIDflockd = "dflockd" // HTTP, /v1
	APIForrst  = "forrst"  // /rpc, over HTTP and over NATS
	APINATS    = "nats"    // the operations of /l and /v1 over NATS
)

// outcome is what a call came to, as far as metrics tell it apart.
type outcome uint8

const (
	outcomeNone outcome = iota
	outcomeGranted
	outcomeRefused // there was no slot
	outcomeReturned
	outcomeRenewed
	outcomeRegistered
)

// eventVectors are the metrics of what calls came to, by API.
type eventVectors struct {
	counts []*prometheus.CounterVec // by the index of eventCounters
	errors *prometheus.CounterVec
	waits  *prometheus.HistogramVec
}

// eventCounters are the names and helps of the counters by API. The constants are
// indexes of it.
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

// Describe and Collect make a prometheus.Collector of a Lending.
func (v *eventVectors) Describe(to chan<- *prometheus.Desc) {
	v.each(func(c prometheus.Collector) { c.Describe(to) })
}

// Collect collects the counts of all APIs.
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

// Events counts what the calls of one API came to. A nil *Events counts nothing.
type Events struct {
	counts [len(eventCounters)]prometheus.Counter
	waits  prometheus.Observer
	errors *prometheus.CounterVec
}

// Events returns the events of an API. It is called once for each, since every event is
// to find its counter without a look-up. A nil *Lending has none.
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

// alarming are the errors of the gateway and its store. They are counted from 0 on: the
// rate of a counter that appears with its first event misses that event.
var alarming = []string{wire.StatusOf(kvslots.ErrUnavailable).Name, wire.Internal.Name}

// Granted counts a grant to a caller that asked for it so long ago.
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

// Returned counts a lease that its holder has given back.
func (e *Events) Returned() { e.inc(returns) }

func (e *Events) inc(of int) {
	if e != nil {
		e.counts[of].Inc()
	}
}

// Failed counts an answer that is an error. kind is the error's name in a table: it must
// not hold anything of the request.
func (e *Events) Failed(kind string) {
	if e != nil && kind != noSlot {
		e.errors.WithLabelValues(kind).Inc()
	}
}

// noSlot is counted by NoSlot.
var noSlot = wire.StatusOf(kvslots.ErrNoSlot).Name

// count counts what a call came to.
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
