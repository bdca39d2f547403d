package bench

import (
	"context"
	"time"
)

// arrivals measures borrowers of one pool of 1,000 slots that arrive at a given rate,
// independent of the server's answers (open loop). The latency is that of borrow and
// return, from the borrower's scheduled arrival.
type arrivals struct{}

func (arrivals) Name() string { return "arrivals" }

// arrivalClients is the maximal number of operations in flight.
const arrivalClients = 256

func (w arrivals) Cases(ctx context.Context, env *Environment) ([]Case, error) {
	return transportCases(ctx, env, both, func(f front, d Transport) []Case {
		key := Key{Workload: w.Name(), Transport: d.Name(), Sync: f.sync, Size: int(env.cfg.Rate)}
		clients := env.cfg.clients(arrivalClients)
		return []Case{{Key: key, Measure: withPools(d, 1, bigPool, clients, func(ctx context.Context, pools Pools, d time.Duration) (Sample, error) {
			take := func(ctx context.Context, client int) error { return takeAndGive(ctx, pools, client, 0) }
			// Each client opens its connection before the measurement.
			if err := forEach(clients, func(client int) error { return take(ctx, client) }); err != nil {
				return Sample{}, err
			}
			return checked(openLoop(ctx, clients, arrivalTimes(env.cfg.Rate, d, 1), take))
		})}}
	})
}
