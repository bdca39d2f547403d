package kvslots

import (
	"context"
	"errors"
	"slices"
	"time"

	"github.com/google/uuid"

	"github.com/kvslots/kvslots/kvslots/clock"
)

// With borrows a slot of a pool, calls do with the lease, and returns the lease. The context of do ends
// before the lease does: see Lease.Context. Without WithWait it waits in line until ctx ends, across failures
// of single gateways.
//
// The errors are those of Store.Borrow, that of do, and those of Store.Return: the slot is taken until its lease
// ends then. If the lease was lost while do ran, the error wraps Lease.Err, too.
func With(ctx context.Context, at Service, pool uuid.UUID, do func(context.Context, *Lease) error, opts ...Option) (err error) {
	var o Options
	if err := o.Apply(opts); err != nil {
		return err
	}
	_, wait := o.Times()
	var lease *Lease
	err = persist(ctx, wait, func(own ...Option) (err error) {
		lease, err = at.Borrow(ctx, pool, slices.Concat(own[:1], opts, own[1:])...)
		return err
	})
	if err != nil {
		return err
	}
	defer func() {
		if _, failed := lease.Return(ctx); failed != nil && !isLost(failed) {
			err = errors.Join(err, failed)
		}
	}()
	within, cancel := lease.Context(ctx)
	defer cancel()
	return errors.Join(do(within, lease), lease.Err())
}

// With calls do while the session holds the lock of a name, and waits for it until ctx ends: see Mutex.Lock. The
// context of do ends before the lock is lost. Whatever do writes to should compare the fence: see Lease.Fence.
//
// The errors are those of Mutex.Lock, that of do, and those of Mutex.Unlock.
func (s *Session) With(ctx context.Context, name string, do func(ctx context.Context, fence uint64) error, opts ...Option) (err error) {
	m := s.Mutex(name, opts...)
	if err := m.Lock(ctx); err != nil {
		return err
	}
	defer func() { err = errors.Join(err, m.Unlock(ctx)) }()
	within, cancel := m.Context(ctx)
	defer cancel()
	return do(within, m.Fence())
}

// persist calls try until it does not return ErrUnavailable, or the wait is over. The options of try are a request key, so
// that its requests share one place in line, and what is left of the wait.
func persist(ctx context.Context, wait time.Duration, try func(...Option) error) error {
	key, until := WithRequestKey(uuid.NewString()), clock.Now()+wait
	for pause := 10 * time.Millisecond; ; pause = min(2*pause, time.Second) {
		err := try(key, WithWait(max(0, until-clock.Now())))
		left := until - clock.Now()
		if !errors.Is(err, ErrUnavailable) || ctx.Err() != nil || left <= retryAfter(err) {
			return err
		}
		if !clock.Sleep(ctx, min(max(pause, retryAfter(err)), left)) {
			return context.Cause(ctx)
		}
	}
}
