package bench

import (
	"context"
	"math/rand/v2"
	"sync"
	"time"
)

// manyPools measures 64 clients that borrow and return in pools picked at random out of
// 1, 1,000 and 100,000 of 1,000 slots, each time at a gateway without other pools. A rig
// is measured over the first transport that has pools.
type manyPools struct{}

func (manyPools) Name() string { return "many-pools" }

var poolNumbers = []int{1, 1000, 100_000}

func (w manyPools) Cases(ctx context.Context, env *Environment) (cases []Case, err error) {
	clients := env.cfg.clients(sharedClients)
	for _, n := range env.cfg.scaled(poolNumbers) {
		f, err := env.freshFront(ctx)
		if err != nil {
			return nil, err
		}
		for _, d := range f.transports {
			if d.Name() == transportV1 { // /v1 has no pools, and its gateway closes unused names
				continue
			}
			key := Key{Workload: w.Name(), Transport: d.Name(), Sync: f.sync, Clients: clients, Size: n}
			cases = append(cases, Case{Key: key, Measure: w.measure(f.rig, d, n, clients)})
			if f.rig != nil { // another transport would register its own pools at this gateway
				break
			}
		}
	}
	return cases, nil
}

// measure registers the pools. At a rig it registers them once for all repetitions, and
// does not delete them.
func (manyPools) measure(r *rig, transport Transport, n, clients int) func(ctx context.Context, d time.Duration) (Sample, error) {
	pick := func(ctx context.Context, pools Pools, d time.Duration) (Sample, error) {
		return checked(closedLoop(ctx, clients, d, timed(func(ctx context.Context, client int) error {
			return takeAndGive(ctx, pools, client, rand.IntN(n))
		})))
	}
	if r == nil {
		return withPools(transport, n, bigPool, clients, pick)
	}
	register := sync.OnceValues(func() (Pools, error) {
		return transport.Pools(context.Background(), n, bigPool, clients)
	})
	return func(ctx context.Context, d time.Duration) (Sample, error) {
		pools, err := register()
		if err != nil {
			return Sample{}, err
		}
		return pick(ctx, pools, d)
	}
}
