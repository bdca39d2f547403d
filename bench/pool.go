package bench

import (
	"context"
	"errors"
	"sync"
	"time"

	"github.com/kvslots/kvslots/natsembed"
)

// bigPool is the largest count of a pool.
const bigPool = 1000

// sharedPool is 64 clients that borrow and return in one pool of 1,000 slots.
type sharedPool struct{}

func (sharedPool) Name() string { return "shared-pool" }

const sharedClients = 64

func (w sharedPool) Cases(ctx context.Context, env *Environment) ([]Case, error) {
	return doorCases(ctx, env, both, func(f front, d Door) []Case {
		clients := env.cfg.clients(sharedClients)
		key := Key{Workload: w.Name(), Door: d.Name(), Sync: f.sync, Clients: clients, Size: bigPool}
		return []Case{{Key: key, Measure: withPools(d, 1, bigPool, clients, func(ctx context.Context, pools Pools, d time.Duration) (Sample, error) {
			return checked(closedLoop(ctx, clients, d, timed(func(ctx context.Context, client int) error {
				return takeAndGive(ctx, pools, client, 0)
			})))
		})}}
	})
}

// lastSlot is one client that borrows and returns the last free slot of a pool
// of 1, and of one of 1,000 of which 999 are lent. The latency is the borrow's.
type lastSlot struct{}

func (lastSlot) Name() string { return "last-slot" }

func (w lastSlot) Cases(ctx context.Context, env *Environment) ([]Case, error) {
	return doorCases(ctx, env, interval, func(f front, d Door) (cases []Case) {
		for _, size := range env.cfg.scaled([]int{1, bigPool}) {
			key := Key{Workload: w.Name(), Door: d.Name(), Sync: f.sync, Clients: 1, Size: size}
			cases = append(cases, Case{Key: key, Measure: withPools(d, 1, size, 1, func(ctx context.Context, pools Pools, d time.Duration) (Sample, error) {
				for range size - 1 {
					if _, err := pools.Take(ctx, 0, 0, longTTL, 0); err != nil {
						return Sample{}, err
					}
				}
				return checked(closedLoop(ctx, 1, d, borrowOnly(pools)))
			})})
		}
		return cases
	})
}

// borrowOnly borrows and returns, and counts the borrow's time alone.
func borrowOnly(pools Pools) cycle {
	return func(ctx context.Context, client int) (time.Duration, error) {
		began := time.Now()
		held, err := pools.Take(ctx, client, 0, longTTL, 0)
		took := time.Since(began)
		if err != nil {
			return took, err
		}
		return took, pools.Give(ctx, client, 0, held)
	}
}

// The sync modes in which workloads run: where the disk's part is of interest,
// in both; where it would hide what is measured, with interval alone.
var (
	both     = []natsembed.Sync{natsembed.SyncAlways, natsembed.SyncInterval}
	interval = []natsembed.Sync{natsembed.SyncInterval}
)

// doorCases returns the cases that make gives for each door of each gateway.
func doorCases(ctx context.Context, env *Environment, syncs []natsembed.Sync, make func(f front, d Door) []Case) (cases []Case, err error) {
	fronts, err := env.fronts(ctx, syncs...)
	if err != nil {
		return nil, err
	}
	for _, f := range fronts {
		for _, d := range f.doors {
			cases = append(cases, make(f, d)...)
		}
	}
	return cases, nil
}

// measure is what a case does with the pools that it has made.
type measure func(ctx context.Context, pools Pools, d time.Duration) (Sample, error)

// withPools makes pools for the time of a measurement.
func withPools(door Door, n, slots, clients int, do measure) func(ctx context.Context, d time.Duration) (Sample, error) {
	return func(ctx context.Context, d time.Duration) (Sample, error) {
		pools, err := door.Pools(ctx, n, slots, clients)
		return measureAndClose(ctx, pools, err, d, do)
	}
}

// withNames gives access to names for the time of a measurement.
func withNames(door Door, slots, clients int, do measure) func(ctx context.Context, d time.Duration) (Sample, error) {
	return func(ctx context.Context, d time.Duration) (Sample, error) {
		names, err := door.Named(ctx, slots, clients)
		return measureAndClose(ctx, names, err, d, do)
	}
}

func measureAndClose(ctx context.Context, pools Pools, err error, d time.Duration, do measure) (Sample, error) {
	if pools == nil {
		return Sample{}, err
	}
	closing := sync.OnceValue(func() error { return closeAgain(pools) })
	defer func() { _ = closing() }()
	if err != nil {
		return Sample{}, err
	}
	s, err := do(ctx, pools, d)
	return s, errors.Join(err, closing())
}

// closeAgain closes pools, and tries again if a server that had much to do has not
// answered.
func closeAgain(pools Pools) (err error) {
	for range 3 {
		if err = bounded(pools.Close)(); err == nil {
			return nil
		}
	}
	return err
}
