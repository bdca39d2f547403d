package bench

import (
	"context"
	"math/rand/v2"
	"sync"
	"time"
)

// manyPools is 64 clients that borrow and return in pools picked at random out of
// 1, 1,000 and 100,000 of 1,000 slots, each time at a gateway that has no others. A gateway of ours is
// measured by the first of the doors that has pools.
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
		for _, d := range f.doors {
			if d.Name() == doorV1 { // it has no pools, and closes names that are not used
				continue
			}
			key := Key{Workload: w.Name(), Door: d.Name(), Sync: f.sync, Clients: clients, Size: n}
			cases = append(cases, Case{Key: key, Measure: w.measure(f.rig, d, n, clients)})
			if f.rig != nil { // another door would double the pools of this gateway
				break
			}
		}
	}
	return cases, nil
}

// measure registers the pools. At a gateway of ours they stay for all
// repetitions, and go with it.
func (manyPools) measure(r *rig, door Door, n, clients int) func(ctx context.Context, d time.Duration) (Sample, error) {
	pick := func(ctx context.Context, pools Pools, d time.Duration) (Sample, error) {
		return checked(closedLoop(ctx, clients, d, timed(func(ctx context.Context, client int) error {
			return takeAndGive(ctx, pools, client, rand.IntN(n))
		})))
	}
	if r == nil {
		return withPools(door, n, bigPool, clients, pick)
	}
	register := sync.OnceValues(func() (Pools, error) {
		return door.Pools(context.Background(), n, bigPool, clients)
	})
	return func(ctx context.Context, d time.Duration) (Sample, error) {
		pools, err := register()
		if err != nil {
			return Sample{}, err
		}
		return pick(ctx, pools, d)
	}
}
