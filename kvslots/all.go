package kvslots

import (
	"bytes"
	"context"
	"slices"

	"github.com/google/uuid"

	"github.com/kvslots/kvslots/kvslots/clock"
)

// BorrowAll borrows a slot of each pool: all, or none. It takes them in the order of the pools'
// ids, whatever the order of pools, so that no two callers of BorrowAll wait for each other.
// WithWait is for all together. While it waits for one slot, it renews the leases of the others; it
// returns them in the order of pools.
//
// The errors are those of Store.Borrow, Lease.Err if a lease was lost meanwhile, and a
// *RangeError for a pool that is given twice. A slot that cannot be returned after an error is
// free when its lease ends.
func BorrowAll(ctx context.Context, at Service, pools []uuid.UUID, opts ...Option) ([]*Lease, error) {
	ordered := slices.SortedFunc(slices.Values(pools), func(a, b uuid.UUID) int { return bytes.Compare(a[:], b[:]) })
	if len(slices.Compact(slices.Clone(ordered))) < len(pools) {
		return nil, &RangeError{"pools", "different from each other"}
	}
	var o Options
	if err := o.Apply(opts); err != nil {
		return nil, err
	}
	ttl, wait := o.Times()
	until := clock.Now() + wait
	leases := make([]*Lease, len(pools))
	var held []*Lease
	waiting, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	for _, pool := range ordered {
		lease, err := at.Borrow(waiting, pool, slices.Concat(opts, []Option{WithTTL(ttl), WithWait(max(until-clock.Now(), 0))})...)
		if err == nil {
			held = append(held, lease)
			err = context.Cause(waiting)
		}
		if err != nil {
			for _, lease := range held {
				_, _ = lease.Return(ctx)
			}
			return nil, err
		}
		if o.Fixed {
			defer lease.unkeep()
		}
		defer context.AfterFunc(lease.kept(), func() { cancel(lease.Err()) })()
		leases[slices.Index(pools, pool)] = lease
	}
	return leases, nil
}

// kept returns a context that ends with the lease.
func (l *Lease) kept() context.Context {
	l.watch()
	return l.done
}
