package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"net/http"
	"slices"
	"time"

	"github.com/kvslots/kvslots/kvslots/client"
	"github.com/kvslots/kvslots/kvslots/clock"
	"github.com/kvslots/kvslots/kvslots/wire"
)

const (
	// firstPause is the pause before a request is sent again. Each further pause
	// is twice as long, up to maxRetryPause.
	firstPause    = 100 * time.Millisecond
	maxRetryPause = 2 * time.Second
)

// temporary reports whether the same request may succeed later. A request that failed
// with such an error may have been granted a slot, which one with the same key takes over. In
// contrast to client.Temporary, a limit that is reached is temporary, too.
func temporary(err error) bool {
	if refused, ok := errors.AsType[*wire.Refusal](err); ok {
		return slices.Contains([]int{http.StatusTooManyRequests, http.StatusBadGateway, http.StatusServiceUnavailable,
			http.StatusGatewayTimeout, http.StatusInsufficientStorage, wire.StatusClientGone}, refused.Status)
	}
	_, ok := errors.AsType[*client.Unanswered](err)
	return ok || errors.Is(err, client.ErrUnconfirmed)
}

// final reports whether the gateway refuses the request for good.
func final(err error) bool {
	refused, ok := errors.AsType[*wire.Refusal](err)
	return ok && refused.Status < http.StatusInternalServerError && !temporary(err)
}

func retryAfter(err error) time.Duration {
	if refused, ok := errors.AsType[*wire.Refusal](err); ok {
		return refused.RetryAfter
	}
	return 0
}

// retry repeats the requests of one call until a deadline, with pauses in between.
type retry struct {
	until  time.Duration // time, by package clock, of the deadline
	hint   string        // printed after an error: what the command does next
	stderr io.Writer

	pause   time.Duration // the last one
	printed string        // the last error
}

// again waits until it is time for another request after err. It returns false if the
// deadline has passed or ctx has ended. No pause goes beyond the deadline, so the last
// request is sent then.
func (r *retry) again(ctx context.Context, err error) bool {
	left := r.until - clock.Now()
	if left <= 0 || ctx.Err() != nil {
		return false
	}
	r.print(err)
	return sleep(ctx, min(r.next(err), left))
}

func (r *retry) print(err error) {
	if text := err.Error(); text != r.printed {
		r.printed = text
		fmt.Fprintf(r.stderr, "kvslots: %s; %s\n", text, r.hint)
	}
}

// next returns the pause after err: what the gateway asked for, or else up to twice the
// last one. Its length is random, so that many clients do not come back at the same time.
func (r *retry) next(err error) time.Duration {
	r.pause = min(max(2*r.pause, firstPause), maxRetryPause)
	if asked := retryAfter(err); asked > 0 {
		return asked
	}
	return r.pause/2 + rand.N(r.pause/2)
}

func sleep(ctx context.Context, d time.Duration) bool {
	select {
	case <-ctx.Done():
		return false
	case <-time.After(d):
		return true
	}
}
