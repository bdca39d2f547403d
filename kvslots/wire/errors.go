package wire

import (
	"context"
	"errors"
	"net/http"

	"github.com/kvslots/kvslots/kvslots"
)

var (
	// ErrMalformed is returned when a body is not one JSON object.
	ErrMalformed = errors.New("body must be one JSON object")

	// ErrTooLarge is returned when a body is longer than MaxBody.
	ErrTooLarge = errors.New("body must be at most 64 KiB")

	// ErrTooSlow is returned when a body did not arrive in time.
	ErrTooSlow = errors.New("body did not arrive in time")

	// ErrAnswerTooLarge is returned when an answer is larger than what carries
	// it can take.
	ErrAnswerTooLarge = errors.New("the answer is larger than a NATS message may be")

	// ErrBusy is returned when a door has as many requests open as it takes.
	ErrBusy = errors.New("too many requests at once")

	// ErrDraining is the cause with which a borrow's context ends when the
	// gateway stops lending. It is a kvslots.ErrPlaceKept: whoever has
	// enqueued may wait at another gateway, at the place that it has.
	ErrDraining error = drainingError{}
)

type drainingError struct{}

func (drainingError) Error() string { return "draining" }

func (drainingError) Unwrap() error { return kvslots.ErrPlaceKept }

// Status is what a client is told about an error.
type Status struct {
	Code   int    // of HTTP, on every door
	Name   string // for programs: the value of ErrorHeader
	Text   string // holds nothing that the client sent, and nothing of ours
	Detail string // likewise; only where Text is Name
	Retry  bool   // whether to say in how many seconds to try again
	Capped bool   // a cap that the operator set refused it, which is no failure
}

// Failed tells whether it is our fault, and for the log.
func (s Status) Failed() bool {
	return s.Code >= http.StatusInternalServerError && !s.Retry && !s.Capped
}

// Failure is the body that says so.
func (s Status) Failure() Failure { return Failure{Error: s.Text, Detail: s.Detail} }

// Lookup says what a client is told about an error; one for each language.
type Lookup func(error) Status

const badRequest = "bad_request"

// Internal is the Status of an error that the table does not know.
var Internal = Status{Code: http.StatusInternalServerError, Name: "internal_error", Text: "internal error"}

// row is an error and its Status in /l, whose Text is the error's own unless it is
// given. What /v1 says instead follows, where it is not the same.
type row struct {
	err error
	Status
	v1Text string
	v1Code int
}

// table is that of gateway/README.md, "The Library API: /l" and "The dflockd API: /v1".
// The first row that matches wins. A body that is too long or too slow is a bad
// request of another status.
var table = []row{
	{err: ErrMalformed, Status: Status{Code: http.StatusBadRequest, Name: badRequest}},
	{err: ErrTooLarge, Status: Status{Code: http.StatusRequestEntityTooLarge, Name: badRequest}},
	{err: ErrTooSlow, Status: Status{Code: http.StatusRequestTimeout, Name: badRequest}},
	{err: ErrBusy, Status: Status{Code: http.StatusServiceUnavailable, Name: "busy", Retry: true}},
	{err: ErrDraining, Status: stopping, v1Text: aboutToStop},
	{err: kvslots.ErrClosed, Status: stopping, v1Text: aboutToStop},
	{err: kvslots.ErrNoPool, Status: Status{Code: http.StatusNotFound, Name: "no_pool"}},
	{err: kvslots.ErrSessionGone, Status: Status{Code: http.StatusGone, Name: "session_gone"}, v1Text: "no such session; it may have been idle for too long"},
	{err: kvslots.ErrNotHeld, Status: Status{Code: http.StatusNotFound, Name: "not_held"}, v1Text: "the token is unknown, or its lease has ended"},
	{err: kvslots.ErrNoSlot, Status: Status{Code: http.StatusConflict, Name: "no_slot"}},
	{err: kvslots.ErrLimitMismatch, Status: Status{Code: http.StatusConflict, Name: "limit_mismatch"}, v1Text: "the key is in use with another limit, or as another kind"},
	{err: kvslots.ErrAlreadyEnqueued, Status: Status{Code: http.StatusConflict, Name: "already_enqueued"}, v1Text: "the session has enqueued for the key already"},
	{err: kvslots.ErrNotEnqueued, Status: Status{Code: http.StatusConflict, Name: "not_enqueued"}, v1Text: "the session has not enqueued for the key, or has left its line"},
	{err: kvslots.ErrLeaseExpired, Status: Status{Code: http.StatusConflict, Name: "lease_expired"}, v1Text: "the lease was granted, and ended before anybody came to wait"},
	{err: kvslots.ErrMaxLocks, Status: capped("max_locks"), v1Text: "as many keys are in use as there may be"},
	{err: kvslots.ErrMaxWaiters, Status: capped("max_waiters"), v1Text: "as many wait for the key as may"},
	{err: kvslots.ErrMaxSessions, Status: capped("max_sessions"), v1Text: "there are as many sessions as there may be"},
	{err: kvslots.ErrMaxSessionsPerOrigin, Status: capped("max_sessions_per_ip"), v1Text: "the address has as many sessions as it may"},
	{err: kvslots.ErrUnavailable, Status: silent},
	{err: context.DeadlineExceeded, Status: silent},
	{err: context.Canceled, Status: Status{Code: StatusClientGone, Name: "client_canceled", Text: "the client went away"}, v1Code: http.StatusRequestTimeout},
}

const aboutToStop = "the gateway is about to stop"

// StatusClientGone is what a client's own disappearance is counted as; 499 is what
// nginx made customary. A client reads it if its gateway gave up the request.
const StatusClientGone = 499

var (
	stopping = Status{Code: http.StatusServiceUnavailable, Name: "draining", Text: ErrDraining.Error(), Retry: true}
	silent   = Status{Code: http.StatusBadGateway, Name: "unavailable", Text: "the store did not answer; safe to retry"}
)

func capped(name string) Status {
	return Status{Code: http.StatusServiceUnavailable, Name: name, Capped: true}
}

// find is the row of an error, with its text.
func find(err error) row {
	if wrong, ok := errors.AsType[*kvslots.RangeError](err); ok {
		return row{Status: Status{Code: http.StatusBadRequest, Name: badRequest, Text: wrong.Error()}}
	}
	for _, r := range table {
		if !errors.Is(err, r.err) {
			continue
		}
		if r.Text == "" {
			r.Text = r.err.Error()
		}
		return r
	}
	return row{Status: Internal}
}

// StatusOf looks an error up as /l tells it. What the table does not know is a 500,
// whose text says nothing; the error itself is for the log.
func StatusOf(err error) Status { return find(err).Status }

// CodeOf looks an error up as /v1 tells it to clients of sessions, locks and
// semaphores: the name is in Text.
func CodeOf(err error) Status {
	r := find(err)
	if r.Detail = r.v1Text; r.Detail == "" {
		r.Detail = r.Text
	}
	if r.v1Code != 0 {
		r.Code = r.v1Code
	}
	r.Text = r.Name
	return r.Status
}
