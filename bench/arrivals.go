package bench

import (
	"context"
	"time"
)

// arrivals is borrowers of one pool of 1,000 slots that arrive at a given rate,
// however the server does (open loop). The latency is that of borrow and return,
// from when the borrower was to arrive.
type arrivals struct{}

func (arrivals) Name() string { return "arrivals" }

// arrivalClients is how many operations may be under way.
const arrivalClients = 256

func (w arrivals) Cases(ctx context.Context, env *Environment) ([]Case, error) {
	return doorCases(ctx, env, both, func(f front, d Door) []Case {
		key := Key{Workload: w.Name(), Door: d.Name(), Sync: f.sync, Size: int(env.cfg.Rate)}
		clients := env.cfg.clients(arrivalClients)
		return []Case{{Key: key, Measure: withPools(d, 1, bigPool, clients, func(ctx context.Context, pools Pools, d time.Duration) (Sample, error) {
			take := func(ctx context.Context, client int) error { return takeAndGive(ctx, pools, client, 0) }
			// Each client has asked once before, so that no arrival pays for a connection.
			if err := forEach(clients, func(client int) error { return take(ctx, client) }); err != nil {
				return Sample{}, err
			}
			return checked(openLoop(ctx, clients, arrivalTimes(env.cfg.Rate, d, 1), take))
		})}}
	})
}
