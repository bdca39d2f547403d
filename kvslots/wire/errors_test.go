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
		text  string
		retry bool
	}{
		{ErrMalformed, 400, "body must be one JSON object", false},
		{ErrTooLarge, 413, "body must be at most 64 KiB", false},
		{ErrTooSlow, 408, "body did not arrive in time", false},
		{ErrBusy, 503, "too many requests at once", true},
		{ErrDraining, 503, "draining", true},
		{&kvslots.RangeError{Field: "ttl", Range: "1 or more"}, 400, "ttl must be 1 or more", false},
		{kvslots.ErrNoPool, 404, "no such pool", false},
		{kvslots.ErrNotHeld, 404, "lease not held", false},
		{kvslots.ErrNoSlot, 409, "no resource available", false},
		{kvslots.ErrUnavailable, 502, "the store did not answer; safe to retry", false},
		{kvslots.ErrClosed, 503, "draining", true},
		{context.DeadlineExceeded, 502, "the store did not answer; safe to retry", false},
		{context.Canceled, 499, "the client went away", false},
		{errors.New("password=hunter2"), 500, "internal error", false},
		{errors.Join(kvslots.ErrUnavailable, context.Canceled), 502, "the store did not answer; safe to retry", false},
	} {
		t.Run(c.err.Error(), func(t *testing.T) {
			for _, err := range []error{c.err, fmt.Errorf("while at it: %w", c.err)} {
				if got, want := StatusOf(err), (Status{Code: c.code, Text: c.text, Retry: c.retry}); got != want {
					t.Errorf("StatusOf(%v) = %+v, want %+v", err, got, want)
				}
			}
		})
	}
}
