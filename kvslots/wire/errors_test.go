package wire

import (
	"context"
	"errors"
	"fmt"
	"testing"

	"github.com/kvslots/kvslots/kvslots"
)

func TestStatusOf(t *testing.T) {
	for _, c := range []struct {
		err   error
		code  int
		name  string
		text  string
		retry bool
	}{
		{ErrMalformed, 400, "bad_request", "body must be one JSON object", false},
		{ErrTooLarge, 413, "bad_request", "body must be at most 64 KiB", false},
		{ErrTooSlow, 408, "bad_request", "body did not arrive in time", false},
		{ErrBusy, 503, "busy", "too many requests at once", true},
		{ErrMaxWaitersTotal, 503, "max_waiters_total", "too many requests are waiting at this gateway", true},
		{ErrMaxWaitersPerIP, 429, "max_waiters_per_ip", "too many requests from this address are waiting", true},
		{ErrDraining, 503, "draining", "draining", true},
		{&kvslots.RangeError{Field: "ttl", Range: "1 or more"}, 400, "bad_request", "ttl must be 1 or more", false},
		{kvslots.ErrNoPool, 404, "no_pool", "no such pool", false},
		{kvslots.ErrNotHeld, 404, "not_held", "lease not held", false},
		{kvslots.ErrNoSlot, 409, "no_slot", "no resource available", false},
		{kvslots.ErrUnavailable, 502, "unavailable", "the store did not answer; safe to retry", false},
		{kvslots.ErrClosed, 503, "draining", "draining", true},
		{context.DeadlineExceeded, 502, "unavailable", "the store did not answer; safe to retry", false},
		{context.Canceled, 499, "client_canceled", "the client went away", false},
		{errors.New("password=hunter2"), 500, "internal_error", "internal error", false},
		{errors.Join(kvslots.ErrUnavailable, context.Canceled), 502, "unavailable", "the store did not answer; safe to retry", false},
	} {
		t.Run(c.err.Error(), func(t *testing.T) {
			for _, err := range []error{c.err, fmt.Errorf("while at it: %w", c.err)} {
				want := Status{Code: c.code, Name: c.name, Text: c.text, Retry: c.retry}
				if wrong, ok := errors.AsType[*kvslots.RangeError](err); ok {
					want.Field, want.Range = wrong.Field, wrong.Range
				}
				if got := StatusOf(err); got != want {
					t.Errorf("StatusOf(%v) = %+v, want %+v", err, got, want)
				}
			}
		})
	}
}
