package wire

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"

	"github.com/kvslots/kvslots/kvslots"
)

func TestCodeOf(t *testing.T) {
	for _, c := range []struct {
		err   error
		code  int
		text  string
		retry bool
	}{
		{ErrMalformed, 400, "bad_request", false},
		{ErrTooLarge, 413, "bad_request", false},
		{ErrTooSlow, 408, "bad_request", false},
		{ErrBusy, 503, "busy", true},
		{ErrMaxWaitersTotal, 503, "max_waiters_total", true},
		{ErrMaxWaitersPerIP, 429, "max_waiters_per_ip", true},
		{ErrDraining, 503, "draining", true},
		{kvslots.ErrClosed, 503, "draining", true},
		{&kvslots.RangeError{Field: "limit", Range: "1 or more"}, 400, "bad_request", false},
		{kvslots.ErrSessionGone, 410, "session_gone", false},
		{kvslots.ErrNotHeld, 404, "not_held", false},
		{kvslots.ErrLimitMismatch, 409, "limit_mismatch", false},
		{kvslots.ErrAlreadyEnqueued, 409, "already_enqueued", false},
		{kvslots.ErrNotEnqueued, 409, "not_enqueued", false},
		{kvslots.ErrLeaseExpired, 409, "lease_expired", false},
		{kvslots.ErrMaxPools, 503, "max_pools", false},
		{kvslots.ErrMaxLocks, 503, "max_locks", false},
		{kvslots.ErrMaxWaiters, 503, "max_waiters", false},
		{kvslots.ErrMaxSessions, 503, "max_sessions", false},
		{kvslots.ErrMaxSessionsPerOrigin, 503, "max_sessions_per_ip", true},
		{kvslots.ErrMaxLocksPerSession, 429, "max_locks_per_session", true},
		{kvslots.ErrMaxLocksPerOrigin, 429, "max_locks_per_ip", true},
		{kvslots.ErrMaxTombstones, 429, "max_tombstones", true},
		{kvslots.ErrUnavailable, 502, "unavailable", false},
		{context.DeadlineExceeded, 502, "unavailable", false},
		{context.Canceled, 408, "client_canceled", false},
		{errors.New("password=hunter2"), 500, "internal_error", false},
	} {
		t.Run(c.err.Error(), func(t *testing.T) {
			for _, err := range []error{c.err, fmt.Errorf("hunter2: %w", c.err)} {
				got := CodeOf(err)
				if got.Code != c.code || got.Text != c.text || got.Retry != c.retry {
					t.Errorf("CodeOf(%v) = %+v", err, got)
				}
				if got.Detail == "" || strings.Contains(got.Detail, "hunter2") {
					t.Errorf("detail %q", got.Detail)
				}
			}
		})
	}
}
