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

// ErrNotUnderstood is returned when what has answered is not a gateway. It is a
// kvslots.ErrUnavailable.
var ErrNotUnderstood = fmt.Errorf("%w: the answer is not a gateway's", kvslots.ErrUnavailable)

// Unanswered is an error before any gateway has answered. The request may have
// reached one or not; sent again it may reach one that answers. It is a
// kvslots.ErrUnavailable.
type Unanswered struct{ Err error }

func (e *Unanswered) Error() string { return e.Err.Error() }

func (e *Unanswered) Unwrap() []error { return []error{kvslots.ErrUnavailable, e.Err} }

// answerTimeout bounds how long a gateway may take, beyond the wait that it was
// asked for. A gateway gives up on the bucket before that.
const answerTimeout = 45 * time.Second

var errLate = &Unanswered{errors.New("no gateway answered in time")}

// bound is the context of a request for which the gateway may wait. Its cause is
// errLate when the gateway has not answered in time.
func bound(ctx context.Context, wait time.Duration) (context.Context, context.CancelFunc) {
	if ends, ok := ctx.Deadline(); ok && time.Until(ends) <= wait+answerTimeout {
		return ctx, func() {}
	}
	return context.WithTimeoutCause(ctx, wait+answerTimeout, errLate)
}

// header is the header of an answer, over either transport.
type header interface{ Get(name string) string }

// newRefusal reads an answer that is no success.
func newRefusal(status int, h header, body []byte) *wire.Refusal {
	r := wire.NewRefusal(status, h.Get(wire.ErrorHeader), body)
	r.RetryAfter = parseRetryAfter(h.Get(wire.RetryAfterHeader), time.Now())
	return r
}

// parseRetryAfter reads a number of seconds, or a date (RFC 9110, 10.2.3).
func parseRetryAfter(text string, now time.Time) time.Duration {
	if seconds, err := strconv.ParseUint(text, 10, 31); err == nil {
		return time.Duration(seconds) * time.Second
	}
	if date, err := http.ParseTime(text); err == nil {
		return max(date.Sub(now), 0)
	}
	return 0
}
