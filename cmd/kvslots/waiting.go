package main

import (
	"context"
	"errors"
	"io"
	"time"

	"github.com/google/uuid"

	"github.com/kvslots/kvslots/cmd/kvslots/internal/boottime"
	"github.com/kvslots/kvslots/kvslots"
)

// waiting is one wait for a slot, in as many requests as it takes: gateways may
// be unreachable, or refuse requests, for a while.
type waiting struct {
	terms
	retry
	tried bool // a request, or a connection
}

func newWaiting(t terms, stderr io.Writer) *waiting {
	return &waiting{terms: t, retry: retry{until: boottime.Now() + t.wait, hint: "trying again", stderr: stderr}}
}

// left is the wait to ask a gateway for: all of --wait in the first request, in
// later ones what is left of it, in whole seconds.
func (w *waiting) left() time.Duration {
	if !w.tried {
		return w.wait
	}
	return max(w.until-boottime.Now(), 0).Truncate(time.Second)
}

// dial connects to a gateway, or to a NATS.
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

// borrower lends slots: a *lender.
type borrower interface {
	borrow(ctx context.Context, pool uuid.UUID, ttl, wait time.Duration) (leaseAnswer, error)
}

// borrow borrows a slot.
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

// request sends one request. With a wait it ends by answerGrace after the wait,
// even if the server never answers.
func (w *waiting) request(ctx context.Context, from borrower, pool uuid.UUID, wait time.Duration) (leaseAnswer, error) {
	if w.wait > 0 {
		var cancel context.CancelFunc
		ctx, cancel = context.WithTimeoutCause(ctx, max(w.until-boottime.Now(), 0)+answerGrace, errLate)
		defer cancel()
	}
	return from.borrow(ctx, pool, w.ttl, wait)
}

// tryAgain waits until it is time for the next request, and reports whether to
// send one. A gateway waits for whole seconds only; if it has refused, requests
// go on for the fraction of a second that is left.
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
