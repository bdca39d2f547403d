package main

import (
	"context"
	"errors"
	"io"
	"time"

	"github.com/google/uuid"

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

// dial connects to a gateway, or to NATS. It tries again until the wait is over.
func (w *waiting) dial(ctx context.Context, to *connection) (*lender, error) {
	for {
		from, err := to.dial()
		if err == nil || !w.tryAgain(ctx, err) {
			return from, err
		}
	}
}

// grant is a granted lease.
type grant struct {
	leaseAnswer
	sent time.Duration // boottime at which the request was sent
}

// borrower sends a request to borrow: a *lender.
type borrower interface {
	borrow(ctx context.Context, pool uuid.UUID, ttl, wait time.Duration) (leaseAnswer, error)
}

// borrow borrows a slot. It tries again until the wait is over.
func (w *waiting) borrow(ctx context.Context, from borrower, pool uuid.UUID) (grant, error) {
	for {
		wait, sent := w.left(), boottime.Now()
		w.tried = true
		answer, err := w.request(ctx, from, pool, wait)
		if err == nil {
			return grant{answer, sent}, nil
		}
		if !w.tryAgain(ctx, err) {
			return grant{}, err
		}
	}
}

// answerGrace is how much longer than the wait a gateway may take to answer.
const answerGrace = 5 * time.Second

// request sends one request. With --wait, it returns at most answerGrace after the wait is
// over, even if the server never answers.
func (w *waiting) request(ctx context.Context, from borrower, pool uuid.UUID, wait time.Duration) (leaseAnswer, error) {
	if w.wait > 0 {
		var cancel context.CancelFunc
		ctx, cancel = context.WithTimeoutCause(ctx, max(w.until-boottime.Now(), 0)+answerGrace, client.ErrAnswerTimeout)
		defer cancel()
	}
	return from.borrow(ctx, pool, w.ttl, wait)
}

// tryAgain waits until it is time for the next request, and reports whether to send one.
// A gateway waits for whole seconds only. After its refusal, requests go on for the
// fraction of a second that is left of the wait.
func (w *waiting) tryAgain(ctx context.Context, err error) bool {
	w.tried = true
	switch {
	case temporary(err):
		return w.again(ctx, err)
	case errors.Is(err, kvslots.ErrNoSlot):
		left := w.until - boottime.Now()
		return left > 0 && left < time.Second && sleep(ctx, min(left, firstPause))
	}
	return false
}
