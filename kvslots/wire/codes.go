package wire

import (
	"context"
	"errors"
	"net/http"

	"github.com/kvslots/kvslots/kvslots"
)

const (
	badRequest = "bad_request"
	draining   = "draining"
	noAnswer   = "the store did not answer; safe to retry"
)

// codes is the table of dflockd's HTTP API ("Error responses"). The first row
// that matches wins. A body that is too long or too slow is a bad request of
// another status.
var codes = []struct {
	err    error
	status Status
}{
	{ErrMalformed, Status{Code: http.StatusBadRequest, Text: badRequest, Detail: ErrMalformed.Error()}},
	{ErrTooLarge, Status{Code: http.StatusRequestEntityTooLarge, Text: badRequest, Detail: ErrTooLarge.Error()}},
	{ErrTooSlow, Status{Code: http.StatusRequestTimeout, Text: badRequest, Detail: ErrTooSlow.Error()}},
	{ErrBusy, Status{Code: http.StatusServiceUnavailable, Text: "busy", Detail: ErrBusy.Error(), Retry: true}},
	{ErrDraining, Status{Code: http.StatusServiceUnavailable, Text: draining, Detail: "the gateway is about to stop", Retry: true}},
	{kvslots.ErrClosed, Status{Code: http.StatusServiceUnavailable, Text: draining, Detail: "the gateway is about to stop", Retry: true}},
	{kvslots.ErrSessionGone, Status{Code: http.StatusGone, Text: "session_gone", Detail: "no such session; it may have been idle for too long"}},
	{kvslots.ErrNotHeld, Status{Code: http.StatusNotFound, Text: "not_held", Detail: "the token is unknown, or its lease has ended"}},
	{kvslots.ErrLimitMismatch, Status{Code: http.StatusConflict, Text: "limit_mismatch", Detail: "the key is in use with another limit, or as another kind"}},
	{kvslots.ErrAlreadyEnqueued, Status{Code: http.StatusConflict, Text: "already_enqueued", Detail: "the session has enqueued for the key already"}},
	{kvslots.ErrNotEnqueued, Status{Code: http.StatusConflict, Text: "not_enqueued", Detail: "the session has not enqueued for the key, or has left its line"}},
	{kvslots.ErrLeaseExpired, Status{Code: http.StatusConflict, Text: "lease_expired", Detail: "the lease was granted, and ended before anybody came to wait"}},
	{kvslots.ErrMaxLocks, Status{Code: http.StatusServiceUnavailable, Text: "max_locks", Detail: "as many keys are in use as there may be", Capped: true}},
	{kvslots.ErrMaxWaiters, Status{Code: http.StatusServiceUnavailable, Text: "max_waiters", Detail: "as many wait for the key as may", Capped: true}},
	{kvslots.ErrMaxSessions, Status{Code: http.StatusServiceUnavailable, Text: "max_sessions", Detail: "there are as many sessions as there may be", Capped: true}},
	{kvslots.ErrMaxSessionsPerOrigin, Status{Code: http.StatusServiceUnavailable, Text: "max_sessions_per_ip", Detail: "the address has as many sessions as it may", Capped: true}},
	{kvslots.ErrUnavailable, Status{Code: http.StatusBadGateway, Text: "unavailable", Detail: noAnswer}},
	{context.DeadlineExceeded, Status{Code: http.StatusBadGateway, Text: "unavailable", Detail: noAnswer}},
	{context.Canceled, Status{Code: http.StatusRequestTimeout, Text: "client_canceled", Detail: "the client went away"}},
}

// CodeOf looks an error up for the sessions, locks and semaphores: the code is
// in Text. What the table does not know is a 500; the error itself is for the
// log.
func CodeOf(err error) Status {
	if wrong, ok := errors.AsType[*kvslots.RangeError](err); ok {
		return Status{Code: http.StatusBadRequest, Text: badRequest, Detail: wrong.Error()}
	}
	for _, row := range codes {
		if errors.Is(err, row.err) {
			return row.status
		}
	}
	return Status{Code: http.StatusInternalServerError, Text: "internal_error", Detail: "internal error"}
}
