package kvslots

import (
	"context"
	"fmt"

	"github.com/google/uuid"

	"github.com/kvslots/kvslots/kvslots/internal/peer"
)

// MaxCount is the largest count of a pool.
const MaxCount = 1000

// Register registers a pool of count slots, or changes the count of a registered
// pool. A higher count wakes waiting borrowers. A lower one ends no lease; the pool
// then lends nothing until fewer than count slots are in use. count must be between
// 0 and MaxCount. The returned state is that of an instant between the registration
// and the return. See kvslots/DESIGN.md, "Pools".
//
// The errors are ErrMaxPools, ErrMaxTombstones, ErrKeyReused, ErrUnavailable, ErrClosed, a
// *RangeError, and context.Cause(ctx).
func (s *Store) Register(ctx context.Context, pool uuid.UUID, count int, opts ...Option) (State, error) {
	if count < 0 || count > MaxCount {
		return State{}, &RangeError{"count", fmt.Sprintf("between 0 and %d", MaxCount)}
	}
	o, err := newOptions(opts)
	if err != nil {
		return State{}, err
	}
	if err := s.checkRoom(ctx); err != nil {
		return State{}, err
	}
	request := peer.Register{
		Pool: poolHash(pool), Count: count, Origin: s.originHash(o.Origin), Request: requestHash("register "+string(pool[:]), o.RequestKey),
		Title: o.Name,
	}
	return s.state(ctx, request)
}

// state returns the state that a request is answered with.
func (s *Store) state(ctx context.Context, r peer.Request) (State, error) {
	a, err := s.bucket.Do(ctx, r)
	if err != nil {
		return State{}, err
	}
	return a.Detail.State, nil
}

// Inspect returns the state of a pool, as it was at an instant between the call
// and its return.
//
// The errors are ErrNoPool, ErrUnavailable, ErrClosed and context.Cause(ctx).
func (s *Store) Inspect(ctx context.Context, pool uuid.UUID) (State, error) {
	request := peer.ReadPool{Pool: poolHash(pool)}
	return s.state(ctx, request)
}

// Delete deletes a pool and ends all its leases; waiting borrowers get ErrNoPool.
// Deleting a pool that does not exist is not an error.
//
// The errors are ErrUnavailable, ErrClosed and context.Cause(ctx).
func (s *Store) Delete(ctx context.Context, pool uuid.UUID) error {
	request := peer.Delete{Pool: poolHash(pool)}
	_, err := s.bucket.Do(ctx, request)
	return err
}
