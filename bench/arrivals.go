package bench

import (
	"context"
	"time"
)

// arrivalClients is the maximal number of operations in flight.
const arrivalClients = 256

// arrivalsCases measure borrowers of one pool of 1,000 slots that arrive at a given rate,
// independent of the server's answers (open loop). The latency is that of borrow and
// return, from the borrower's scheduled arrival.
func arrivalsCases(ctx context.Context, env *environment) ([]Case, error) {
	clients := env.cfg.clients(arrivalClients)
	return casesOf(ctx, env, both, load{
		key: Key{Workload: arrivals, Size: int(env.cfg.Rate)}, pools: 1, slots: bigPool, clients: clients,
		measure: func(ctx context.Context, _ *Gateway, pools Pools, d time.Duration) (Sample, error) {
			take := func(ctx context.Context, client int) error { return takeAndGive(ctx, pools, client, 0) }
			// Each client opens its connection before the measurement.
			if err := forEach(clients, func(client int) error { return take(ctx, client) }); err != nil {
				return Sample{}, err
			}
			return checked(openLoop(ctx, clients, arrivalTimes(env.cfg.Rate, d, 1), take))
		},
	})
}
