package bench

import (
	"context"
	"sync/atomic"
	"time"
)

// namedOnce is 64 sessions that acquire and release locks, each of a name that is
// used once.
type namedOnce struct{}

func (namedOnce) Name() string { return "named-once" }

const namedClients = 64

func (w namedOnce) Cases(ctx context.Context, env *Environment) ([]Case, error) {
	return namedCases(ctx, env, w.Name(), func() func() int {
		var last atomic.Int64
		return func() int { return int(last.Add(1)) }
	})
}

// namedHot is 64 sessions that acquire and release the same lock, and stand in
// its line.
type namedHot struct{}

func (namedHot) Name() string { return "named-hot" }

func (w namedHot) Cases(ctx context.Context, env *Environment) ([]Case, error) {
	return namedCases(ctx, env, w.Name(), func() func() int { return func() int { return 0 } })
}

// namedCases are those of the doors that have names. naming gives, for each
// measurement, what numbers the names.
func namedCases(ctx context.Context, env *Environment, workload string, naming func() (next func() int)) ([]Case, error) {
	return doorCases(ctx, env, both, func(f front, d Door) []Case {
		if d.Name() == doorHTTP { // /l has no names
			return nil
		}
		clients := env.cfg.clients(namedClients)
		key := Key{Workload: workload, Door: d.Name(), Sync: f.sync, Clients: clients}
		return []Case{{Key: key, Measure: withNames(d, 1, clients, func(ctx context.Context, names Pools, d time.Duration) (Sample, error) {
			next := naming()
			return checked(closedLoop(ctx, clients, d, timed(func(ctx context.Context, client int) error {
				return takeAndGive(ctx, names, client, next())
			})))
		})}}
	})
}
