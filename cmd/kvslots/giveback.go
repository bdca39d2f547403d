package main

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"time"

	"github.com/kvslots/kvslots/kvslots/wire"
)

const (
	// returnTimeout bounds one try to return a lease.
	returnTimeout = 5 * time.Second

	// minReturnTimeout is what a try has when the lease is about to end.
	minReturnTimeout = time.Second
)

// giveBack returns a lease, and tries that again until the lease has ended or ctx
// ends. That it fails is printed; the command's exit code stays what it is.
func (r *runner) giveBack(ctx context.Context, from lender, lease held) {
	tries := retry{
		until:  lease.latest,
		hint:   "trying to return the slot until its lease ends, or a second signal comes",
		stderr: r.command.ErrOrStderr(),
	}
	for {
		err := returnOnce(ctx, from, lease)
		switch {
		case err == nil || lost(err):
			return
		case final(err) || !tries.again(ctx, err):
			fmt.Fprintf(tries.stderr, "kvslots: the slot was not returned, and is free when its lease ends: %v\n", err)
			return
		}
	}
}

func returnOnce(ctx context.Context, from lender, lease held) error {
	timeout := min(max(lease.latest-bootTime(), minReturnTimeout), returnTimeout)
	ctx, cancel := context.WithTimeout(ctx, timeout)
	defer cancel()
	_, err := from.giveBack(ctx, lease.pool, lease.lease.Lease)
	return err
}

// final reports whether the server refuses the request for good, and not only
// for now.
func final(err error) bool {
	refused, ok := errors.AsType[*wire.Refusal](err)
	return ok && refused.Status < http.StatusInternalServerError && !temporary(err)
}
