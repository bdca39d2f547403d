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

// sharedPool measures 64 clients that borrow and return in one pool of 1,000 slots.
type sharedPool struct{}

func (sharedPool) Name() string { return "shared-pool" }

const sharedClients = 64

func (w sharedPool) Cases(ctx context.Context, env *Environment) ([]Case, error) {
	return transportCases(ctx, env, both, func(f front, d Transport) []Case {
		clients := env.cfg.clients(sharedClients)
		key := Key{Workload: w.Name(), Transport: d.Name(), Sync: f.sync, Clients: clients, Size: bigPool}
		return []Case{{Key: key, Measure: withPools(d, 1, bigPool, clients, func(ctx context.Context, pools Pools, d time.Duration) (Sample, error) {
			return checked(closedLoop(ctx, clients, d, timed(func(ctx context.Context, client int) error {
				return takeAndGive(ctx, pools, client, 0)
			})))
		})}}
	})
}

// lastSlot measures one client that borrows and returns the last free slot of a pool of
// 1, and of a pool of 1,000 of which 999 are lent. The latency is that of the borrow.
type lastSlot struct{}

func (lastSlot) Name() string { return "last-slot" }

func (w lastSlot) Cases(ctx context.Context, env *Environment) ([]Case, error) {
	return transportCases(ctx, env, interval, func(f front, d Transport) (cases []Case) {
		for _, size := range env.cfg.scaled([]int{1, bigPool}) {
			key := Key{Workload: w.Name(), Transport: d.Name(), Sync: f.sync, Clients: 1, Size: size}
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

// borrowOnly borrows and returns, and returns the latency of the borrow alone.
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

// The sync modes of workloads: both if the time of the disk matters, and interval if
// that time would hide the measured time.
var (
	both     = []natsembed.Sync{natsembed.SyncAlways, natsembed.SyncInterval}
	interval = []natsembed.Sync{natsembed.SyncInterval}
)

// transportCases returns the results of make for each transport of each gateway.
func transportCases(ctx context.Context, env *Environment, syncs []natsembed.Sync, make func(f front, d Transport) []Case) (cases []Case, err error) {
	fronts, err := env.fronts(ctx, syncs...)
	if err != nil {
		return nil, err
	}
	for _, f := range fronts {
		for _, d := range f.transports {
			cases = append(cases, make(f, d)...)
		}
	}
	return cases, nil
}

// measure is a measurement with pools for its clients.
type measure func(ctx context.Context, pools Pools, d time.Duration) (Sample, error)

// withPools registers pools for the time of a measurement.
func withPools(transport Transport, n, slots, clients int, do measure) func(ctx context.Context, d time.Duration) (Sample, error) {
	return func(ctx context.Context, d time.Duration) (Sample, error) {
		pools, err := transport.Pools(ctx, n, slots, clients)
		return measureAndClose(ctx, pools, err, d, do)
	}
}

// withNames provides locks or semaphores for the time of a measurement.
func withNames(transport Transport, slots, clients int, do measure) func(ctx context.Context, d time.Duration) (Sample, error) {
	return func(ctx context.Context, d time.Duration) (Sample, error) {
		names, err := transport.Named(ctx, slots, clients)
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

// closeAgain closes pools, in up to three attempts: a busy server may not answer in
// time.
func closeAgain(pools Pools) (err error) {
	for range 3 {
		if err = bounded(pools.Close)(); err == nil {
			return nil
		}
	}
	return err
}
