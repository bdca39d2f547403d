package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"net/http"
	"time"

	"github.com/kvslots/kvslots/kvslots/wire"
)

const (
	// firstPause is how long to wait before a request is sent again; every
	// further pause is twice as long, up to maxRetryPause.
	firstPause    = 100 * time.Millisecond
	maxRetryPause = 2 * time.Second
)

// unanswered is an error on the way to a gateway: none has answered, and a later
// request may reach one that does.
type unanswered struct{ error }

func (e unanswered) Unwrap() error { return e.error }

// temporary reports whether the same request may succeed later. None of these
// errors leaves a slot taken that is not returned by the gateway, or free at the
// end of its ttl.
func temporary(err error) bool {
	if refused, ok := errors.AsType[*wire.Refusal](err); ok {
		switch refused.Status {
		case http.StatusTooManyRequests, http.StatusBadGateway, http.StatusServiceUnavailable, http.StatusGatewayTimeout,
			wire.StatusClientGone:
			return true
		}
		return false
	}
	_, ok := errors.AsType[unanswered](err)
	return ok
}

// retry spaces out the tries of one request until a deadline.
type retry struct {
	until  time.Duration // of bootTime
	hint   string        // what is done about an error; printed after it
	stderr io.Writer

	pause time.Duration // the last one
	said  string        // the last error that was printed
}

// again waits until it is time for another try after err. It returns false when
// the deadline has passed, or ctx has ended; the last try is made at the deadline.
func (r *retry) again(ctx context.Context, err error) bool {
	left := r.until - bootTime()
	if left <= 0 || ctx.Err() != nil {
		return false
	}
	r.say(err)
	return sleep(ctx, min(r.next(err), left))
}

// say prints an error, unless it is the one that was printed last.
func (r *retry) say(err error) {
	if text := err.Error(); text != r.said {
		r.said = text
		fmt.Fprintf(r.stderr, "kvslots: %s; %s\n", text, r.hint)
	}
}

// next is the pause after err: what the server asked for, or up to twice the
// last one, of random length so that many clients do not come back at once.
func (r *retry) next(err error) time.Duration {
	r.pause = min(max(2*r.pause, firstPause), maxRetryPause)
	if asked := retryAfter(err); asked > 0 {
		return asked
	}
	return r.pause/2 + rand.N(r.pause/2)
}

// retryAfter is how long the server asked to wait before the next request, or 0.
func retryAfter(err error) time.Duration {
	if refused, ok := errors.AsType[*wire.Refusal](err); ok {
		return refused.RetryAfter
	}
	return 0
}

// sleep returns false when ctx ended first.
func sleep(ctx context.Context, d time.Duration) bool {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-ctx.Done():
		return false
	case <-timer.C:
		return true
	}
}
