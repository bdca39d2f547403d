package main

import (
	"context"
	"errors"
	"io"
	"time"

	"github.com/kvslots/kvslots/cmd/kvslots/internal/boottime"
	"github.com/kvslots/kvslots/kvslots"
	"github.com/kvslots/kvslots/kvslots/client"
)

// waiting is one wait for a slot. It may take several requests, since gateways may be
// unreachable or refuse requests for a while.
type waiting struct {
	leaseTimes
	retry
	tried bool // a request was sent, or a connection attempted
}

func newWaiting(t leaseTimes, stderr io.Writer) *waiting {
	return &waiting{leaseTimes: t, retry: retry{until: boottime.Now() + t.wait, hint: "trying again", stderr: stderr}}
}

// left returns the wait to ask a gateway for: all of --wait in the first request, and the
// rest of it in later ones, in whole seconds.
func (w *waiting) left() time.Duration {
	if !w.tried {
		return w.wait
	}
	return max(w.until-boottime.Now(), 0).Truncate(time.Second)
}

// repeat calls try until it succeeds, its error is not temporary, or the wait is over.
func (w *waiting) repeat(ctx context.Context, try func() error) error {
	for {
		err := try()
		w.tried = true
		if err == nil || !w.tryAgain(ctx, err) {
			return err
		}
	}
}

// answerGrace is how much longer than the wait a gateway may take to answer.
const answerGrace = 5 * time.Second

// bounded returns a context for one request. With --wait, it ends answerGrace after the wait
// is over, even if the server never answers.
func (w *waiting) bounded(ctx context.Context) (context.Context, context.CancelFunc) {
	if w.wait == 0 {
		return ctx, func() {}
	}
	return context.WithTimeoutCause(ctx, max(w.until-boottime.Now(), 0)+answerGrace, client.ErrAnswerTimeout)
}

// tryAgain waits until it is time for the next request, and reports whether to send one.
// A gateway waits for whole seconds only. After its refusal, requests go on for the
// fraction of a second that is left of the wait.
func (w *waiting) tryAgain(ctx context.Context, err error) bool {
	switch {
	case temporary(err):
		return w.again(ctx, err)
	case errors.Is(err, kvslots.ErrNoSlot):
		left := w.until - boottime.Now()
		return left > 0 && left < time.Second && sleep(ctx, min(left, firstPause))
	}
	return false
}
