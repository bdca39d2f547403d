package bench

import (
	"context"
	"time"
)

// bigPool is the largest count of a pool.
const bigPool = 1000

const sharedClients = 64

// sharedPoolCases measure 64 clients that borrow and return in one pool of 1,000 slots.
func sharedPoolCases(ctx context.Context, env *environment) ([]Case, error) {
	clients := env.cfg.clients(sharedClients)
	return casesOf(ctx, env, both, load{
		key: Key{Workload: sharedPool, Clients: clients, Size: bigPool}, pools: 1, slots: bigPool, clients: clients,
		measure: repeatedly(clients, onePool),
	})
}

// lastSlotCases measure one client that borrows and returns the last free slot of a pool
// of 1, and of a pool of 1,000 of which 999 are lent. The latency is that of the borrow.
func lastSlotCases(ctx context.Context, env *environment) ([]Case, error) {
	var loads []load
	for _, size := range env.cfg.scaled([]int{1, bigPool}) {
		loads = append(loads, load{
			key: Key{Workload: lastSlot, Clients: 1, Size: size}, pools: 1, slots: size, clients: 1,
			measure: func(ctx context.Context, _ *Gateway, pools Pools, d time.Duration) (Sample, error) {
				for range size - 1 {
					if _, err := pools.Take(ctx, 0, 0, longTTL, 0); err != nil {
						return Sample{}, err
					}
				}
				return checked(closedLoop(ctx, 1, d, borrowOnly(pools)))
			},
		})
	}
	return casesOf(ctx, env, interval, loads...)
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
