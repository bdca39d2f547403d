package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"time"

	"github.com/google/uuid"

	"github.com/kvslots/kvslots/kvslots"
)

// waiting is one wait for a slot, over as many requests as it takes: gateways
// may be away for a while, or refuse requests for a while.
type waiting struct {
	terms
	retry
	tried bool // a request, or a connection
}

func newWaiting(t terms, stderr io.Writer) *waiting {
	return &waiting{terms: t, retry: retry{until: bootTime() + t.wait, hint: "trying again", stderr: stderr}}
}

// left is how long to wait at a gateway: at first as long as was asked for, later
// what is left of it, in whole seconds.
func (w *waiting) left() time.Duration {
	if !w.tried {
		return w.wait
	}
	return max(w.until-bootTime(), 0).Truncate(time.Second)
}

// dial connects to where gateways are.
func (w *waiting) dial(ctx context.Context, to *connection) (lender, error) {
	for {
		from, err := to.dial()
		if err == nil || !w.goesOn(ctx, err) {
			return from, err
		}
	}
}

// borrow borrows a slot.
func (w *waiting) borrow(ctx context.Context, from lender, pool uuid.UUID) (held, error) {
	for {
		wait, sent := w.left(), bootTime()
		w.tried = true
		answer, err := w.try(ctx, from, pool, wait)
		if err == nil {
			return newHeld(pool, answer, sent, bootTime()), nil
		}
		if !w.goesOn(ctx, err) {
			return held{}, err
		}
	}
}

// tryGrace is how long a gateway may take for its answer beyond the end of a wait.
const tryGrace = 5 * time.Second

// try sends one request. It does not outlast a wait by more than tryGrace, even at a
// server that never answers.
func (w *waiting) try(ctx context.Context, from lender, pool uuid.UUID, wait time.Duration) (leaseAnswer, error) {
	if w.wait > 0 {
		var cancel context.CancelFunc
		ctx, cancel = context.WithTimeout(ctx, max(w.until-bootTime(), 0)+tryGrace)
		defer cancel()
	}
	return from.borrow(ctx, pool, w.ttl, wait)
}

// goesOn waits until it is time for the next try, and reports whether there is
// one. A refusal by a gateway that was asked to wait for whole seconds is not the
// last word for the fraction of a second that is left.
func (w *waiting) goesOn(ctx context.Context, err error) bool {
	w.tried = true
	switch {
	case temporary(err):
		return w.again(ctx, err)
	case errors.Is(err, kvslots.ErrNoSlot):
		left := w.until - bootTime()
		return left > 0 && left < time.Second && sleep(ctx, min(left, firstPause))
	}
	return false
}

// printShortfall tells the user that the lease is shorter than was asked for.
func (w *waiting) printShortfall(lease leaseAnswer) {
	if lease.ttl() < w.ttl {
		fmt.Fprintf(w.stderr, "kvslots: the lease is for %s, and not for %s: the gateway granted no more\n",
			formatDuration(lease.ttl()), formatDuration(w.ttl))
	}
}
