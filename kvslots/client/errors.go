package client

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"strconv"
	"time"

	"github.com/kvslots/kvslots/kvslots"
	"github.com/kvslots/kvslots/kvslots/wire"
)

// ErrNotUnderstood is returned when an answer is not that of a gateway. It wraps
// kvslots.ErrUnavailable.
var ErrNotUnderstood = fmt.Errorf("%w: the answer is not a gateway's", kvslots.ErrUnavailable)

// Unanswered is the error of a request that no gateway has answered, although one may
// have received it. A repeated request may be answered. It wraps
// kvslots.ErrUnavailable.
type Unanswered struct{ Err error }

func (e *Unanswered) Error() string { return e.Err.Error() }

func (e *Unanswered) Unwrap() []error { return []error{kvslots.ErrUnavailable, e.Err} }

// answerTimeout bounds how long a gateway may take to answer after the wait of a
// request. A gateway gives up on the bucket earlier.
const answerTimeout = 45 * time.Second

// ErrAnswerTimeout is returned when no gateway has answered in time.
var ErrAnswerTimeout = &Unanswered{errors.New("no gateway answered in time")}

// withAnswerTimeout returns a context that ends with cause ErrAnswerTimeout when a
// gateway that may wait for that long has not answered in time.
func withAnswerTimeout(ctx context.Context, wait time.Duration) (context.Context, context.CancelFunc) {
	if ends, ok := ctx.Deadline(); ok && time.Until(ends) <= wait+answerTimeout {
		return ctx, func() {}
	}
	return context.WithTimeoutCause(ctx, wait+answerTimeout, ErrAnswerTimeout)
}

// header is the header of an answer over either transport.
type header interface{ Get(name string) string }

// newRefusal returns the error for an answer that reports a failure.
func newRefusal(status int, h header, body []byte) *wire.Refusal {
	r := wire.NewRefusal(status, h, body)
	r.RetryAfter = parseRetryAfter(h.Get(wire.RetryAfterHeader), time.Now())
	return r
}

// parseRetryAfter parses a number of seconds or a date (RFC 9110, 10.2.3).
func parseRetryAfter(text string, now time.Time) time.Duration {
	if seconds, err := strconv.ParseUint(text, 10, 31); err == nil {
		return time.Duration(seconds) * time.Second
	}
	if date, err := http.ParseTime(text); err == nil {
		return max(date.Sub(now), 0)
	}
	return 0
}
