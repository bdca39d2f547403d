package client

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/kvslots/kvslots/kvslots"
)

// ErrNotUnderstood is returned when an answer is not that of a gateway. It wraps
// kvslots.ErrUnavailable.
var ErrNotUnderstood = fmt.Errorf("%w: the answer is not a gateway's", kvslots.ErrUnavailable)

// ErrTLS and ErrNoTLS are returned when a URL has the scheme http, and the server expects TLS, or
// the other way round.
var (
	ErrTLS   = errors.New("the server expects TLS, so its URL begins with https://")
	ErrNoTLS = errors.New("the server does not speak TLS, so its URL begins with http://")
)

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
