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

// statusGone is what a client's own disappearance is counted as. Nobody reads
// it; 499 is what nginx made customary.
const statusGone = 499

// Status is what a client is told about an error.
type Status struct {
	Code   int    // of HTTP, on every door
	Text   string // holds nothing that the client sent, and nothing of ours
	Detail string // likewise; only where Text is a code
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

// statuses is the table (Library, "Errors"). The first row that matches wins.
var statuses = []struct {
	err    error
	status Status
}{
	{ErrMalformed, Status{Code: http.StatusBadRequest, Text: ErrMalformed.Error()}},
	{ErrTooLarge, Status{Code: http.StatusRequestEntityTooLarge, Text: ErrTooLarge.Error()}},
	{ErrTooSlow, Status{Code: http.StatusRequestTimeout, Text: ErrTooSlow.Error()}},
	{ErrBusy, Status{Code: http.StatusServiceUnavailable, Text: ErrBusy.Error(), Retry: true}},
	{ErrDraining, Status{Code: http.StatusServiceUnavailable, Text: "draining", Retry: true}},
	{kvslots.ErrNoPool, Status{Code: http.StatusNotFound, Text: "no such pool"}},
	{kvslots.ErrNotHeld, Status{Code: http.StatusNotFound, Text: "lease not held"}},
	{kvslots.ErrNoSlot, Status{Code: http.StatusConflict, Text: "no resource available"}},
	{kvslots.ErrUnavailable, Status{Code: http.StatusBadGateway, Text: "the store did not answer; safe to retry"}},
	{kvslots.ErrClosed, Status{Code: http.StatusServiceUnavailable, Text: "draining", Retry: true}},
	{context.DeadlineExceeded, Status{Code: http.StatusBadGateway, Text: "the store did not answer; safe to retry"}},
	{context.Canceled, Status{Code: statusGone, Text: "the client went away"}},
}

// StatusOf looks an error up. What the table does not know is a 500, whose
// text says nothing; the error itself is for the log.
func StatusOf(err error) Status {
	if wrong, ok := errors.AsType[*kvslots.RangeError](err); ok {
		return Status{Code: http.StatusBadRequest, Text: wrong.Error()}
	}
	for _, row := range statuses {
		if errors.Is(err, row.err) {
			return row.status
		}
	}
	return Status{Code: http.StatusInternalServerError, Text: "internal error"}
}
