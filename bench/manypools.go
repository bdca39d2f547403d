package bench

import (
	"context"
	"math/rand/v2"
	"sync"
	"time"
)

var poolNumbers = []int{1, 1000, 100_000}

// manyPoolsCases measure 64 clients that borrow and return in pools picked at random out of
// 1, 1,000 and 100,000 of 1,000 slots, each time at a gateway without other pools. A testbed
// is measured over the first transport that has pools.
func manyPoolsCases(ctx context.Context, env *Environment) (cases []Case, err error) {
	clients := env.cfg.clients(sharedClients)
	for _, n := range env.cfg.scaled(poolNumbers) {
		f, err := env.freshInstance(ctx)
		if err != nil {
			return nil, err
		}
		l := load{
			key: Key{Workload: manyPools, Clients: clients, Size: n}, pools: n, slots: bigPool, clients: clients,
			measure: repeatedly(clients, func() int { return rand.IntN(n) }),
		}
		for _, transport := range f.transports {
			if transport.Name() == transportV1 { // /v1 has no pools, and its gateway closes unused names
				continue
			}
			c := l.over(f, transport)
			if f.testbed == nil {
				cases = append(cases, c)
				continue
			}
			c.Measure = l.withoutDeletion(f.testbed, transport)
			cases = append(cases, c)
			break // another transport would register its own pools at this gateway
		}
	}
	return cases, nil
}

// withoutDeletion registers the pools once for all repetitions, and does not delete them.
func (l load) withoutDeletion(r *testbed, transport Transport) func(ctx context.Context, d time.Duration) (Sample, error) {
	register := sync.OnceValues(func() (Pools, error) {
		return transport.Pools(context.Background(), l.pools, l.slots, l.clients)
	})
	return func(ctx context.Context, d time.Duration) (Sample, error) {
		pools, err := register()
		if err != nil {
			return Sample{}, err
		}
		return l.measure(ctx, r, pools, d)
	}
}
