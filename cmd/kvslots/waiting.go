package main

import (
	"context"
	"errors"
	"io"
	"time"

	"github.com/google/uuid"

	"github.com/kvslots/kvslots/kvslots"
	"github.com/kvslots/kvslots/kvslots/client"
	"github.com/kvslots/kvslots/kvslots/clock"
)

// waiting is one wait for a slot. It may take several requests, since gateways may be
// unreachable, refuse requests for a while, or wait for less than this.
type waiting struct {
	leaseTerms
	retry
	tried bool          // a request was sent, or a connection attempted
	asked time.Duration // the wait of the last request
}

func newWaiting(t leaseTerms, stderr io.Writer) *waiting {
	return &waiting{leaseTerms: t, retry: retry{until: clock.Now() + t.wait, hint: "trying again", stderr: stderr}}
}

// longestAsk bounds the wait of one request. A gateway that dies is noticed when that time and
// a request's timeout are over.
const longestAsk = time.Minute

// left returns the wait to ask a gateway for: up to all of --wait in the first request, and the
// rest of it in later ones, in whole seconds.
func (w *waiting) left() time.Duration {
	w.asked = min(w.wait, longestAsk)
	if w.tried {
		w.asked = min(max(w.until-clock.Now(), 0).Truncate(time.Second), longestAsk)
	}
	return w.asked
}

// repeat calls try until it succeeds, its error is not temporary, or the wait is over. Each
// try has the same request key, so that it takes over the place in line, or the lease, of the
// one before. A gateway keeps the place for such a try; one without a wait leaves the line. So
// one is the last, also when ctx has ended; if that is granted something, repeat returns nil.
func (w *waiting) repeat(ctx context.Context, try func(ctx context.Context, key kvslots.Option) error) error {
	key := uuid.NewString()
	for {
		began := clock.Now()
		err := try(ctx, kvslots.WithRequestKey(key))
		w.tried = true
		switch {
		case err == nil:
			return nil
		case ctx.Err() != nil && w.asked > 0:
			w.until = 0
			leaving, cancel := context.WithTimeout(context.WithoutCancel(ctx), leaveTimeout)
			defer cancel()
			if try(leaving, kvslots.WithRequestKey(key)) == nil {
				return nil
			}
			return err
		case !w.tryAgain(ctx, err, clock.Now()-began):
			return err
		case errors.Is(err, client.ErrUnconfirmed):
			key = uuid.NewString()
		}
	}
}

// leaveTimeout bounds the last request of a command that a signal has ended.
const leaveTimeout = time.Second

// answerGrace is how much longer than the wait a gateway may take to answer.
const answerGrace = 5 * time.Second

// bounded returns a context for one request. With --wait, it ends answerGrace after the wait
// is over, even if the server never answers.
func (w *waiting) bounded(ctx context.Context) (context.Context, context.CancelFunc) {
	if w.wait == 0 {
		return ctx, func() {}
	}
	return context.WithTimeoutCause(ctx, max(w.until-clock.Now(), 0)+answerGrace, client.ErrAnswerTimeout)
}

// tryAgain waits until it is time for the next request, after one that took a time, and reports
// whether to send one. A gateway ends a wait after its --max-wait, and waits for whole seconds
// only: requests go on for the fraction of a second that is left.
func (w *waiting) tryAgain(ctx context.Context, err error, took time.Duration) bool {
	switch {
	case temporary(err):
		return w.again(ctx, err)
	case errors.Is(err, kvslots.ErrNoSlot):
		left := w.until - clock.Now()
		if left <= 0 {
			return w.asked > 0
		}
		if took > maxRetryPause { // the gateway has waited, and keeps the place in line for a while
			w.pause = 0
			return ctx.Err() == nil
		}
		return sleep(ctx, min(left, w.next(err)))
	}
	return false
}
