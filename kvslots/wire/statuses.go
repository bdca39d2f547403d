package wire

import (
	"cmp"
	"context"
	"errors"
	"net/http"
	"slices"
	"strconv"

	"github.com/kvslots/kvslots/kvslots"
)

var (
	// ErrMalformed is returned when a body is not one JSON object.
	ErrMalformed = errors.New("body must be one JSON object")

	// ErrTooLarge is returned when a body is longer than MaxBody.
	ErrTooLarge = errors.New("body must be at most 64 KiB")

	// ErrTooSlow is returned when a body did not arrive in time.
	ErrTooSlow = errors.New("body did not arrive in time")

	// ErrAnswerTooLarge is returned when an answer is larger than the NATS server's
	// maximal payload.
	ErrAnswerTooLarge = errors.New("the answer is larger than a NATS message may be")

	// ErrBusy is returned when a transport has reached its maximum of open requests.
	ErrBusy = errors.New("too many requests at once")

	// ErrMaxWaitersTotal is returned when as many requests wait at the gateway as it
	// allows, and ErrMaxWaitersPerIP when as many from one address do.
	ErrMaxWaitersTotal = errors.New("too many requests are waiting at this gateway")
	ErrMaxWaitersPerIP = errors.New("too many requests from this address are waiting")

	// ErrMaxReads is returned when a client's list or statistics are queued already, and it asks
	// for others.
	ErrMaxReads = errors.New("another list of the client is queued")

	// ErrDraining is the cause with which the context of a borrow ends when the
	// gateway stops lending. It wraps kvslots.ErrPlaceKept: a session that has
	// enqueued keeps its place, and may wait at another gateway.
	ErrDraining error = drainingError{}
)

type drainingError struct{}

func (drainingError) Error() string { return "draining" }

func (drainingError) Unwrap() error { return kvslots.ErrPlaceKept }

// Status describes an error in an answer to a client.
type Status struct {
	Code   int    // HTTP status, on every transport
	Name   string // for programs: the value of ErrorHeader; "": the answer has no such header
	Text   string // from StatusOf: for people; from CodeOf: equal to Name. It contains nothing of the request or an inner error
	Detail string // from StatusOf: ""; from CodeOf: for people
	Capped bool   // whether a limit that the operator has set was reached

	RetryAfter int // the value of RetryAfterHeader, in seconds; 0: the answer has no such header

	Field, Range string // of a kvslots.RangeError: the values of FieldHeader and RangeHeader
	Cause        string // of a kvslots.ErrNotHeld: the value of CauseHeader; "": not known
}

// Headers calls set for each header of the answer.
func (s Status) Headers(set func(name, value string)) {
	if s.Name != "" {
		set(ErrorHeader, s.Name)
	}
	if s.Field != "" {
		set(FieldHeader, s.Field)
		set(RangeHeader, s.Range)
	}
	if s.Cause != "" {
		set(CauseHeader, s.Cause)
	}
	if s.RetryAfter != 0 {
		set(RetryAfterHeader, strconv.Itoa(s.RetryAfter))
	}
}

// Failed reports whether this is a server error, which is logged.
func (s Status) Failed() bool {
	return s.Code >= http.StatusInternalServerError && s.RetryAfter == 0 && !s.Capped
}

// Failure returns the body of the answer.
func (s Status) Failure() Failure { return Failure{Error: s.Text, Detail: s.Detail} }

// Lookup returns the Status of an error in one dialect: StatusOf or CodeOf.
type Lookup func(error) Status

const badRequest = "bad_request"

// row is an error with its Status in /l. If Text is "", it is the error's own text. v1Text
// and v1Code replace Text and Code in /v1, unless they are zero.
type row struct {
	err error
	Status
	v1Text string
	v1Code int
}

// table is the table of errors in gateway/README.md, "The Library API: /l" and "The
// dflockd API: /v1". The first row that matches applies.
var table = []row{
	{err: ErrMalformed, Status: Status{Code: http.StatusBadRequest, Name: badRequest}},
	{err: ErrTooLarge, Status: Status{Code: http.StatusRequestEntityTooLarge, Name: badRequest}},
	{err: ErrTooSlow, Status: Status{Code: http.StatusRequestTimeout, Name: badRequest}},
	{err: ErrBusy, Status: Status{Code: http.StatusServiceUnavailable, Name: "busy", RetryAfter: 1}},
	{err: ErrMaxWaitersTotal, Status: Status{Code: http.StatusServiceUnavailable, Name: "max_waiters_total", RetryAfter: 1}},
	{err: ErrMaxWaitersPerIP, Status: Status{Code: http.StatusTooManyRequests, Name: "max_waiters_per_ip", RetryAfter: 1}},
	{err: ErrMaxStreams, Status: Status{Code: http.StatusServiceUnavailable, Name: "max_event_streams", RetryAfter: 5}},
	{err: ErrMaxStreamsPerIP, Status: Status{Code: http.StatusTooManyRequests, Name: "max_event_streams_per_ip", RetryAfter: 5}},
	{err: ErrMaxReads, Status: Status{Code: http.StatusTooManyRequests, Name: RateLimited.Name, RetryAfter: 1}},
	{err: ErrDraining, Status: stopping, v1Text: aboutToStop},
	{err: kvslots.ErrClosed, Status: stopping, v1Text: aboutToStop},
	{err: kvslots.ErrNoPool, Status: Status{Code: http.StatusNotFound, Name: "no_pool"}},
	{err: kvslots.ErrSessionGone, Status: Status{Code: http.StatusGone, Name: "session_gone"}, v1Text: "no such session; it may have been idle for too long"},
	{err: kvslots.ErrExpired, Status: notHeld("expired"), v1Text: "the lease was not renewed in time"},
	{err: kvslots.ErrEvicted, Status: notHeld("evicted"), v1Text: "an operator has ended the lease"},
	{err: kvslots.ErrNotHeld, Status: notHeld(""), v1Text: "the token is unknown, or its lease has ended"},
	{err: kvslots.ErrOtherHolder, Status: Status{Code: http.StatusConflict, Name: "other_holder"}, v1Text: "the position has another lease by now"},
	{err: kvslots.ErrNoPosition, Status: Status{Code: http.StatusNotFound, Name: "no_position"}, v1Text: "the pool has no such position"},
	{err: kvslots.ErrNotInLine, Status: Status{Code: http.StatusNotFound, Name: "not_in_line"}, v1Text: "no call with the request key waits or has a lease"},
	{err: kvslots.ErrNoSlot, Status: Status{Code: http.StatusConflict, Name: "no_slot"}},
	{err: kvslots.ErrLimitMismatch, Status: Status{Code: http.StatusConflict, Name: "limit_mismatch"}, v1Text: "the key is in use with another limit, or as another kind"},
	{err: kvslots.ErrAlreadyEnqueued, Status: Status{Code: http.StatusConflict, Name: "already_enqueued"}, v1Text: "the session has enqueued for the key already"},
	{err: kvslots.ErrNotEnqueued, Status: Status{Code: http.StatusConflict, Name: "not_enqueued"}, v1Text: "the session has not enqueued for the key, or has left its line"},
	{err: kvslots.ErrLeaseExpired, Status: Status{Code: http.StatusConflict, Name: "lease_expired"}, v1Text: "the lease was granted, and ended before the session called wait"},
	{err: kvslots.ErrKeyReused, Status: Status{Code: http.StatusUnprocessableEntity, Name: "key_reused"}, v1Text: "the request key was used with other arguments, and its lease lives or its call waits"},
	{err: kvslots.ErrMaxPools, Status: capped("max_pools")},
	{err: kvslots.ErrMaxLocks, Status: Status{Code: http.StatusServiceUnavailable, Name: "max_locks", RetryAfter: 1, Capped: true}, v1Text: "the maximum number of keys is in use"},
	{err: kvslots.ErrMaxWaiters, Status: capped("max_waiters"), v1Text: "the maximum number of requests wait for the key"},
	{err: kvslots.ErrMaxSessions, Status: capped("max_sessions"), v1Text: "the maximum number of sessions is open"},
	{err: kvslots.ErrMaxSessionsPerOrigin, Status: Status{Code: http.StatusServiceUnavailable, Name: "max_sessions_per_ip", RetryAfter: 1, Capped: true}, v1Text: "the address has the maximum number of sessions"},
	{err: kvslots.ErrMaxLocksPerSession, Status: Status{Code: http.StatusTooManyRequests, Name: "max_locks_per_session", RetryAfter: 1}, v1Text: "the session holds or waits for the maximum number of keys"},
	{err: kvslots.ErrMaxLocksPerOrigin, Status: Status{Code: http.StatusTooManyRequests, Name: "max_locks_per_ip", RetryAfter: 1}, v1Text: "the client holds or waits for the maximum number of keys"},
	{err: kvslots.ErrMaxTombstones, Status: Status{Code: http.StatusTooManyRequests, Name: "max_tombstones", Text: "the address has left too many pools, names and sessions in the last minutes", RetryAfter: 30}},
	{err: kvslots.ErrFull, Status: Status{Code: http.StatusInsufficientStorage, Name: "store_full", Text: "the store has no room for new entries"}}, // precedes ErrUnavailable, which it wraps
	{err: kvslots.ErrNoMajority, Status: Status{Code: http.StatusServiceUnavailable, Name: "unavailable", RetryAfter: 1}},                           // as does this
	{err: kvslots.ErrUnavailable, Status: storeUnanswered},
	{err: context.DeadlineExceeded, Status: storeUnanswered},
	{err: context.Canceled, Status: Status{Code: StatusClientGone, Name: "client_canceled", Text: "the client went away"}, v1Code: http.StatusRequestTimeout},
}

const aboutToStop = "the gateway is about to stop"

// StatusClientGone is the status of a request whose client has disconnected, as in
// nginx, or has cancelled the request over NATS.
const StatusClientGone = 499

var (
	stopping        = Status{Code: http.StatusServiceUnavailable, Name: "draining", Text: ErrDraining.Error(), RetryAfter: 1}
	storeUnanswered = Status{Code: http.StatusBadGateway, Name: "unavailable", Text: "the store did not answer; safe to retry"}
)

// notHeld has one text for all causes, since clients of /l may compare it.
func notHeld(cause string) Status {
	return Status{Code: http.StatusNotFound, Name: "not_held", Text: kvslots.ErrNotHeld.Error(), Cause: cause}
}

func capped(name string) Status {
	return Status{Code: http.StatusServiceUnavailable, Name: name, Capped: true}
}

// find returns the row of an error, with Text set.
func find(err error) row {
	if wrong, ok := errors.AsType[*kvslots.RangeError](err); ok {
		return row{Status: Status{Code: http.StatusBadRequest, Name: badRequest, Text: wrong.Error(), Field: wrong.Field, Range: wrong.Range}}
	}
	for _, r := range table {
		if errors.Is(err, r.err) {
			r.Text = cmp.Or(r.Text, r.err.Error())
			if r.err == kvslots.ErrNoMajority {
				r.Text = err.Error() // which nodes are missing
			}
			return r
		}
	}
	return row{Status: Internal}
}

// StatusOf returns the Status of an error in the Library API: /l over HTTP, and the
// subjects of pools over NATS. An unknown error is Internal, whose text does not describe
// the error.
func StatusOf(err error) Status { return find(err).Status }

// CodeOf returns the Status of an error in the dflockd API: /v1 over HTTP, and the
// subjects of sessions, locks and semaphores over NATS. It differs from StatusOf in Text
// and Detail, and in some codes.
func CodeOf(err error) Status {
	r := find(err)
	if taken, ok := errors.AsType[*kvslots.TakenError](err); ok && taken.Err == kvslots.ErrLimitMismatch {
		r.v1Text = "the key is in use " + taken.Use()
	}
	r.Detail, r.Code, r.Text = cmp.Or(r.v1Text, r.Text), cmp.Or(r.v1Code, r.Code), r.Name
	return r.Status
}

// Internal is the Status of an unknown error.
var Internal = Status{Code: http.StatusInternalServerError, Name: "internal_error", Text: "internal error"}

// The answers of the gateway's HTTP server to requests that it refuses before they reach
// an operation.
var (
	Unauthorized     = Status{Code: http.StatusUnauthorized, Name: "unauthorized", Text: "unauthorized"}
	ForeignHost      = Status{Code: http.StatusForbidden, Name: forbidden, Text: "the gateway does not answer to this Host"}
	ForeignOrigin    = Status{Code: http.StatusForbidden, Name: forbidden, Text: "pages of other origins are not served"}
	ReadOnly         = Status{Code: http.StatusForbidden, Name: "read_only", Text: "the token may only read"}
	NotFound         = Status{Code: http.StatusNotFound, Name: "not_found", Text: "not found"}
	MethodNotAllowed = Status{Code: http.StatusMethodNotAllowed, Name: "method_not_allowed", Text: "method not allowed"}
	RateLimited      = Status{Code: http.StatusTooManyRequests, Name: "rate_limited", Text: "rate limited"}

	MaxConnections      = Status{Code: http.StatusServiceUnavailable, Name: "max_connections", Text: "too many connections", RetryAfter: 1}
	MaxConnectionsPerIP = Status{Code: http.StatusTooManyRequests, Name: "max_connections_per_ip", Text: "too many connections of the address", RetryAfter: 1}
)

const forbidden = "forbidden"

// clientFaults are the names of those refusals whose status is below 500.
var clientFaults = []string{Unauthorized.Name, forbidden, ReadOnly.Name, NotFound.Name, MethodNotAllowed.Name, RateLimited.Name, MaxConnectionsPerIP.Name}

// isClientFault reports whether a refusal is one of clientFaults. Without a name, as from
// a proxy, the status alone decides.
func isClientFault(name string, status int) bool {
	if name == "" {
		return status < http.StatusInternalServerError && status != http.StatusConflict
	}
	return slices.Contains(clientFaults, name)
}
