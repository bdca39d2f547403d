package wire

import (
	"context"
	"encoding/json"
	"errors"
	"net/http"
	"testing"

	"github.com/kvslots/kvslots/kvslots"
	"github.com/kvslots/kvslots/kvslots/kvslotstest"
)

// A client finds the error that the gateway has reported.
func TestRefusal(t *testing.T) {
	for _, c := range []struct {
		err  error
		want error // nil if the answer says only that the request was refused
	}{
		{kvslots.ErrNoPool, kvslots.ErrNoPool},
		{kvslots.ErrNoSlot, kvslots.ErrNoSlot},
		{kvslots.ErrNotHeld, kvslots.ErrNotHeld},
		{kvslots.ErrExpired, kvslots.ErrExpired},
		{kvslots.ErrEvicted, kvslots.ErrEvicted},
		{kvslots.ErrSessionGone, kvslots.ErrSessionGone},
		{kvslots.ErrLimitMismatch, kvslots.ErrLimitMismatch},
		{kvslots.ErrAlreadyEnqueued, kvslots.ErrAlreadyEnqueued},
		{kvslots.ErrNotEnqueued, kvslots.ErrNotEnqueued},
		{kvslots.ErrLeaseExpired, kvslots.ErrLeaseExpired},
		{kvslots.ErrMaxPools, kvslots.ErrMaxPools},
		{kvslots.ErrMaxLocks, kvslots.ErrMaxLocks},
		{kvslots.ErrMaxWaiters, kvslots.ErrMaxWaiters},
		{kvslots.ErrMaxSessions, kvslots.ErrMaxSessions},
		{kvslots.ErrMaxSessionsPerOrigin, kvslots.ErrMaxSessionsPerOrigin},
		{kvslots.ErrMaxLocksPerSession, kvslots.ErrMaxLocksPerSession},
		{kvslots.ErrMaxLocksPerOrigin, kvslots.ErrMaxLocksPerOrigin},
		{kvslots.ErrFull, kvslots.ErrFull},
		{kvslots.ErrUnavailable, kvslots.ErrUnavailable},
		{kvslots.ErrClosed, kvslots.ErrUnavailable},
		{context.DeadlineExceeded, kvslots.ErrUnavailable},
		{context.Canceled, kvslots.ErrUnavailable},
		{ErrDraining, kvslots.ErrUnavailable},
		{ErrBusy, kvslots.ErrUnavailable},
		{ErrMaxWaitersTotal, kvslots.ErrUnavailable},
		{ErrMaxWaitersPerIP, ErrMaxWaitersPerIP},
		{errors.New("surprise"), kvslots.ErrUnavailable},
		{ErrTooSlow, nil},
	} {
		for name, lookup := range map[string]Lookup{"l": StatusOf, "v1": CodeOf} {
			t.Run(name+" "+c.err.Error(), func(t *testing.T) {
				status := lookup(c.err)
				body, err := json.Marshal(status.Failure())
				kvslotstest.Must(t, err)
				got := NewRefusal(status.Code, headerOf(status), body)
				if got.Status != status.Code || got.Text == "" || got.Err != c.want {
					t.Errorf("%s is understood as %+v", body, got)
				}
			})
		}
	}
}

// headerOf is the header of the answer with a status.
func headerOf(status Status) http.Header {
	h := http.Header{}
	status.Headers(h.Set)
	return h
}

// A client finds the argument that was refused, whatever the words of the text are.
func TestRefusalOfAnArgument(t *testing.T) {
	for _, lookup := range []Lookup{StatusOf, CodeOf} {
		want := kvslots.RangeError{Field: "what must be there", Range: "1 or more"}
		status := lookup(&want)
		body, err := json.Marshal(status.Failure())
		kvslotstest.Must(t, err)
		got, ok := errors.AsType[*kvslots.RangeError](NewRefusal(status.Code, headerOf(status), body))
		if !ok || *got != want {
			t.Errorf("%s is understood as %+v", body, got)
		}
	}
}

// The refusals of the HTTP server itself say nothing about the store.
func TestRefusalOfTheServer(t *testing.T) {
	for _, status := range []Status{Unauthorized, ForeignHost, ForeignOrigin, NotFound, MethodNotAllowed, RateLimited} {
		body, err := json.Marshal(status.Failure())
		kvslotstest.Must(t, err)
		if got := NewRefusal(status.Code, headerOf(status), body); got.Err != nil || got.Text != status.Text {
			t.Errorf("%s is understood as %+v", body, got)
		}
	}
}

// A text alone names no argument.
func TestRefusalOfATextOnly(t *testing.T) {
	got := NewRefusal(http.StatusBadRequest, headerOf(Status{Name: badRequest}), []byte(`{"error":"body must be one JSON object"}`))
	if got.Err != nil || got.Text != "body must be one JSON object" {
		t.Errorf("it is understood as %+v", got)
	}
}

// An answer without ErrorHeader may come from a proxy.
func TestRefusalWithoutAName(t *testing.T) {
	for status, want := range map[int]error{
		302: nil, 400: nil, 401: nil, 404: nil, 409: kvslots.ErrNoSlot, 429: nil,
		500: kvslots.ErrUnavailable, 502: kvslots.ErrUnavailable, 503: kvslots.ErrUnavailable, 504: kvslots.ErrUnavailable,
	} {
		if got := NewRefusal(status, http.Header{}, []byte("<html>")); got.Err != want || got.Text != "" || got.Error() == "" {
			t.Errorf("%d is understood as %+v", status, got)
		}
	}
}

// A cause of a later version is that of a lease that is not held.
func TestUnknownCause(t *testing.T) {
	status := StatusOf(kvslots.ErrNotHeld)
	status.Cause = "moved"
	if got := NewRefusal(status.Code, headerOf(status), nil); got.Err != kvslots.ErrNotHeld {
		t.Errorf("understood as %v", got.Err)
	}
}
