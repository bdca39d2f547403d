package kvslots

import (
	"context"
	"errors"
	"fmt"

	"github.com/kvslots/kvslots/kvslots/internal/entry"
	"github.com/kvslots/kvslots/kvslots/internal/peer"
)

// WholePool is the position that stands for all of a pool.
const WholePool = entry.WholePool

// TakeOut takes a position out of service, or with WholePool a pool: it counts as taken, until
// PutBack. Its lease goes on, and may be renewed. The configuration of the pool keeps that, over
// restarts, registrations and backups; a pool of which anything is out of service is never
// closed as idle. A lock or semaphore is then in use, for Config.MaxLocks and, by the origin of
// the last TakeOut, for MaxLocksPerOrigin. To do it again changes the reason. With WholePool and ByName
// the lock or semaphore need not be in use.
//
// The errors are ErrNoPool, ErrNoPosition, ErrMaxLocks, ErrMaxLocksPerOrigin, ErrUnavailable,
// ErrClosed, a *RangeError, and context.Cause(ctx).
func (s *Store) TakeOut(ctx context.Context, pool PoolRef, out OutOfService, opts ...Option) (State, error) {
	if err := checkText("reason", out.Reason); err != nil {
		return State{}, err
	}
	o, err := newOptions(opts)
	if err != nil {
		return State{}, err
	}
	if err := s.checkRoom(ctx); err != nil {
		return State{}, err
	}
	if pool.key != "" {
		if err := Lock(pool.key).Check(false); err != nil {
			return State{}, err
		}
	}
	return s.setOut(ctx, peer.SetOut{Pool: pool.hash, Origin: s.originHash(o.Origin), Name: pool.key, By: o.Operator, Out: entry.Out(out)})
}

// PutBack puts a position, or with WholePool a pool, back into service. That is no error if it
// is in service. The errors are those of TakeOut but ErrMaxLocks and ErrMaxLocksPerOrigin.
func (s *Store) PutBack(ctx context.Context, pool PoolRef, position int, opts ...Option) (State, error) {
	o, err := newOptions(opts)
	if err != nil {
		return State{}, err
	}
	return s.setOut(ctx, peer.SetOut{Pool: pool.hash, By: o.Operator, Out: entry.Out{Position: position}, InService: true})
}

// SetLimit changes the limit of a semaphore that is in use, between 1 and MaxSemaphoreLimit. Its leases go
// on, even if they are more, and those in line wait for a slot under the new limit. Later calls must ask
// for that.
//
// The errors are ErrNoPool (it is not in use), ErrLimitMismatch (it is no semaphore), ErrUnavailable,
// ErrClosed, a *RangeError, and context.Cause(ctx).
func (s *Store) SetLimit(ctx context.Context, pool PoolRef, limit int, opts ...Option) (State, error) {
	o, err := newOptions(opts)
	if err != nil {
		return State{}, err
	}
	if err := Semaphore("any", limit).Check(true); err != nil {
		return State{}, err
	}
	return s.state(ctx, peer.SetLimit{Pool: pool.hash, Limit: limit, By: o.Operator})
}

func (s *Store) setOut(ctx context.Context, r peer.SetOut) (State, error) {
	if r.Position < WholePool {
		return State{}, &RangeError{"position", "0 or more, and less than the pool's count"}
	}
	state, err := s.state(ctx, r)
	if errors.Is(err, peer.ErrMaxOut) {
		err = &RangeError{"reason", fmt.Sprintf("shorter: what is out of service in a pool takes at most %d KiB", entry.MaxOut>>10)}
	}
	return state, err
}

// Evict ends the lease of a position if the lease has this fence, which the caller has read, so that the
// call cannot end the lease of the next holder. It returns the ended lease. The holder learns of that by
// Lease.Done or Mutex.Done within 5 s, if it reaches a server.
//
// The errors are ErrNotHeld, ErrOtherHolder, ErrNoPool, ErrUnavailable, ErrClosed and
// context.Cause(ctx). After ErrUnavailable the lease may or may not have ended; the call may be
// repeated.
func (s *Store) Evict(ctx context.Context, pool PoolRef, position int, fence uint64, opts ...Option) (HolderStats, error) {
	o, err := newOptions(opts)
	if err != nil {
		return HolderStats{}, err
	}
	return s.holder(ctx, peer.Evict{Pool: pool.hash, Position: position, Fence: fence, By: o.Operator})
}
