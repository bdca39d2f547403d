package main

import (
	"context"
	"errors"
	"fmt"

	"github.com/google/uuid"
)

// obtain connects and borrows, and makes sure that enough is left of the lease.
// A signal that would have ended us ends the wait, and what was granted in that
// moment is returned.
func (r *runner) obtain(stop, hurry context.Context, pool uuid.UUID) (from lender, lease held, err error) {
	w := newWaiting(r.terms, r.command.ErrOrStderr())
	from, err = w.dial(stop, &r.connection)
	if err == nil {
		lease, err = r.obtainFrom(stop, hurry, w, from, pool)
	}
	if err == nil && stop.Err() != nil {
		r.giveBack(hurry, from, lease)
	}
	if stop.Err() != nil {
		return from, held{}, interrupted(stop)
	}
	if err == nil {
		w.printShortfall(lease.lease)
	}
	return from, lease, err
}

func (r *runner) obtainFrom(stop, hurry context.Context, w *waiting, from lender, pool uuid.UUID) (held, error) {
	for {
		lease, err := w.borrow(stop, from, pool)
		if err != nil {
			return held{}, err
		}
		if lease.lease.ttl() <= r.killAfter+margin(lease.lease.ttl()) {
			r.giveBack(hurry, from, lease)
			return held{}, fmt.Errorf("the gateway lends for %s at most, which --kill-after %s leaves nothing of",
				formatDuration(lease.lease.ttl()), formatDuration(r.killAfter))
		}
		if lease.useful(bootTime(), r.killAfter) {
			return lease, nil
		}
		renewed, err := r.renewed(stop, from, lease)
		if err == nil {
			return renewed, nil
		}
		r.giveBack(hurry, from, renewed)
		if w.left() == 0 {
			return held{}, errors.New("the gateway's answers take too long for so short a --ttl")
		}
	}
}

// renewed is a lease that is as good as new. When no gateway answered, it is the
// old one, which may have been renewed all the same.
func (r *runner) renewed(ctx context.Context, from lender, lease held) (held, error) {
	sent := bootTime()
	answer, err := from.renew(ctx, lease.pool, lease.lease.Lease, r.ttl)
	switch {
	case err == nil:
	case final(err), errors.Is(err, errors.ErrUnsupported):
		return lease, err
	default:
		lease.latest = max(lease.latest, bootTime()+lease.lease.ttl())
		return lease, err
	}
	return newHeld(lease.pool, answer, sent, bootTime()), nil
}
