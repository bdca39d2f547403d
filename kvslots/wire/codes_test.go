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
		retry int
	}{
		{ErrMalformed, 400, "bad_request", 0},
		{ErrTooLarge, 413, "bad_request", 0},
		{ErrTooSlow, 408, "bad_request", 0},
		{ErrBusy, 503, "busy", 1},
		{ErrMaxWaitersTotal, 503, "max_waiters_total", 1},
		{ErrMaxWaitersPerIP, 429, "max_waiters_per_ip", 1},
		{ErrMaxStreams, 503, "max_event_streams", 5},
		{ErrMaxReads, 429, "rate_limited", 1},
		{ErrMaxStreamsPerIP, 429, "max_event_streams_per_ip", 5},
		{ErrDraining, 503, "draining", 1},
		{kvslots.ErrClosed, 503, "draining", 1},
		{&kvslots.RangeError{Field: "limit", Range: "1 or more"}, 400, "bad_request", 0},
		{kvslots.ErrSessionGone, 410, "session_gone", 0},
		{kvslots.ErrNotHeld, 404, "not_held", 0},
		{kvslots.ErrLimitMismatch, 409, "limit_mismatch", 0},
		{kvslots.ErrAlreadyEnqueued, 409, "already_enqueued", 0},
		{kvslots.ErrNotEnqueued, 409, "not_enqueued", 0},
		{kvslots.ErrLeaseExpired, 409, "lease_expired", 0},
		{kvslots.ErrMaxPools, 503, "max_pools", 0},
		{kvslots.ErrMaxLocks, 503, "max_locks", 1},
		{kvslots.ErrMaxWaiters, 503, "max_waiters", 0},
		{kvslots.ErrMaxSessions, 503, "max_sessions", 0},
		{kvslots.ErrMaxSessionsPerOrigin, 503, "max_sessions_per_ip", 1},
		{kvslots.ErrMaxLocksPerSession, 429, "max_locks_per_session", 1},
		{kvslots.ErrMaxLocksPerOrigin, 429, "max_locks_per_ip", 1},
		{kvslots.ErrKeyReused, 422, "key_reused", 0},
		{kvslots.ErrMaxTombstones, 429, "max_tombstones", 30},
		{kvslots.ErrFull, 507, "store_full", 0},
		{kvslots.ErrUnavailable, 502, "unavailable", 0},
		{context.DeadlineExceeded, 502, "unavailable", 0},
		{context.Canceled, 408, "client_canceled", 0},
		{errors.New("password=hunter2"), 500, "internal_error", 0},
	} {
		t.Run(c.err.Error(), func(t *testing.T) {
			for _, err := range []error{c.err, fmt.Errorf("hunter2: %w", c.err)} {
				got := CodeOf(err)
				if got.Code != c.code || got.Text != c.text || got.RetryAfter != c.retry {
					t.Errorf("CodeOf(%v) = %+v", err, got)
				}
				if got.Detail == "" || strings.Contains(got.Detail, "hunter2") {
					t.Errorf("detail %q", got.Detail)
				}
			}
		})
	}
}
