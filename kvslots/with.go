package kvslots

import (
	"context"
	"errors"
	"time"

	"github.com/google/uuid"
)

// With borrows a slot of a pool, calls do with the lease, and returns the lease. Meanwhile it
// renews the lease. The context of do ends before the lease does: see Lease.Context.
//
// The errors are those of Store.Borrow, and that of do. If the lease was lost while do ran, the
// error wraps Lease.Err, too. An error of the return is not reported: the lease ends by itself.
func With(ctx context.Context, at Service, pool uuid.UUID, ttl, wait time.Duration, do func(context.Context, *Lease) error, opts ...Option) error {
	lease, err := at.Borrow(ctx, pool, ttl, wait, opts...)
	if err != nil {
		return err
	}
	defer func() { _, _ = lease.Return(ctx) }()
	defer lease.KeepAlive(ctx)()
	within, cancel := lease.Context(ctx)
	defer cancel()
	err = do(within, lease)
	return errors.Join(err, lease.Err())
}
