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
		retry int
	}{
		{ErrMalformed, 400, "bad_request", "body must be one JSON object", 0},
		{ErrTooLarge, 413, "bad_request", "body must be at most 64 KiB", 0},
		{ErrTooSlow, 408, "bad_request", "body did not arrive in time", 0},
		{ErrBusy, 503, "busy", "too many requests at once", 1},
		{ErrMaxWaitersTotal, 503, "max_waiters_total", "too many requests are waiting at this gateway", 1},
		{ErrMaxWaitersPerIP, 429, "max_waiters_per_ip", "too many requests from this address are waiting", 1},
		{ErrDraining, 503, "draining", "draining", 1},
		{&kvslots.RangeError{Field: "ttl", Range: "1 or more"}, 400, "bad_request", "ttl must be 1 or more", 0},
		{kvslots.ErrNoPool, 404, "no_pool", "no such pool", 0},
		{kvslots.ErrMaxTombstones, 429, "max_tombstones", "the address has left too many pools, names and sessions in the last minutes", 30},
		{kvslots.ErrNotHeld, 404, "not_held", "lease not held", 0},
		{kvslots.ErrEvicted, 404, "not_held", "lease not held", 0},
		{kvslots.ErrNoSlot, 409, "no_slot", "no resource available", 0},
		{kvslots.ErrFull, 507, "store_full", "the store has no room for new entries", 0},
		{kvslots.ErrUnavailable, 502, "unavailable", "the store did not answer; safe to retry", 0},
		{kvslots.ErrClosed, 503, "draining", "draining", 1},
		{context.DeadlineExceeded, 502, "unavailable", "the store did not answer; safe to retry", 0},
		{context.Canceled, 499, "client_canceled", "the client went away", 0},
		{errors.New("password=hunter2"), 500, "internal_error", "internal error", 0},
		{errors.Join(kvslots.ErrUnavailable, context.Canceled), 502, "unavailable", "the store did not answer; safe to retry", 0},
	} {
		t.Run(c.err.Error(), func(t *testing.T) {
			for _, err := range []error{c.err, fmt.Errorf("while at it: %w", c.err)} {
				want := Status{Code: c.code, Name: c.name, Text: c.text, RetryAfter: c.retry}
				if errors.Is(err, kvslots.ErrEvicted) {
					want.Cause = "evicted"
				}
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
