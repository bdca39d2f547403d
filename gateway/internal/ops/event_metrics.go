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
	APITCP     = "tcp"     // dflockd's TCP protocol
)

// outcome is the result of a call, as metrics distinguish it. It is an index of
// eventCounters, except 0: a call without an outcome is not counted.
type outcome uint8

const (
	outcomeGranted outcome = iota + 1
	outcomeRefused         // there was no slot
	outcomeTimedOut
	outcomeReturned
	outcomeRenewed
	outcomeRegistered
)

type eventVectors struct {
	prometheus.Collector // of all of them, which makes a Lending a Collector

	counts [len(eventCounters)]*prometheus.CounterVec // by outcome
	errors *prometheus.CounterVec
	waits  *prometheus.HistogramVec
}

var eventCounters = [...]prometheus.CounterOpts{
	outcomeGranted:    {Name: "kvslots_grants_total", Help: "Leases granted: of pools, locks and semaphores."},
	outcomeRefused:    {Name: "kvslots_refusals_total", Help: "Borrows that would not wait and found no free slot."},
	outcomeTimedOut:   {Name: "kvslots_timeouts_total", Help: "Borrows that waited and got no slot, except those that keep their place to ask again."},
	outcomeReturned:   {Name: "kvslots_returns_total", Help: "Leases returned or released by a client."},
	outcomeRenewed:    {Name: "kvslots_renewals_total", Help: "Leases renewed."},
	outcomeRegistered: {Name: "kvslots_registrations_total", Help: "Pools registered, or registered again."},
}

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
	all := prometheus.NewRegistry()
	all.MustRegister(v.errors, v.waits)
	for result := outcomeGranted; result <= outcomeRegistered; result++ {
		v.counts[result] = prometheus.NewCounterVec(eventCounters[result], api)
		all.MustRegister(v.counts[result])
	}
	v.Collector = all
	return v
}

// Events counts the outcomes of calls of one API. A nil *Events counts nothing.
type Events struct {
	counts [len(eventCounters)]prometheus.Counter
	waits  prometheus.Observer
	errors *prometheus.CounterVec
	of     *Lending
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
		of:     l,
	}
	for result := outcomeGranted; result <= outcomeRegistered; result++ {
		e.counts[result] = l.counts[result].WithLabelValues(api)
	}
	for _, kind := range alarming {
		e.errors.WithLabelValues(kind)
	}
	return e
}

// alarming are the kinds of server errors. Their counters are exported as 0 before the
// first error: otherwise a rate would not include the first error.
var alarming = []string{wire.StatusOf(kvslots.ErrUnavailable).Name, wire.StatusOf(kvslots.ErrFull).Name, wire.Internal.Name}

// Failed counts an answer with an error. kind is the error's name in a table: it must not
// contain text of the request.
func (e *Events) Failed(kind string) {
	if e != nil && kind != noSlot {
		e.errors.WithLabelValues(kind).Inc()
	}
}

// noSlot is counted as a refusal or a timeout.
var noSlot = wire.StatusOf(kvslots.ErrNoSlot).Name

func (e *Events) count(call *Call, err error) {
	result := call.outcome
	switch {
	case errors.Is(err, kvslots.ErrNoSlot):
		result = outcomeRefused
	case err != nil:
		result = 0
	}
	if e == nil || result == 0 {
		return
	}
	switch {
	case result == outcomeRefused && e.asksAgain(call):
		return
	case result == outcomeRefused && call.Wait > 0:
		result = outcomeTimedOut
	case result == outcomeGranted:
		e.waits.Observe(time.Since(call.Arrived).Seconds())
	}
	e.counts[result].Inc()
}

// asksAgain reports whether the wait of a client that got no slot is not over, or was before: it says so, or it has a request
// key, and has waited for less than it has asked for.
func (e *Events) asksAgain(call *Call) bool {
	return call.Uncounted || call.RequestKey != "" && call.Wait > e.of.Clamp(call.Wait)
}
