package bench

import (
	"context"
	"sync/atomic"
	"time"
)

// namedOnce measures 64 sessions that acquire and release locks, each with a new name.
type namedOnce struct{}

func (namedOnce) Name() string { return "named-once" }

const namedClients = 64

func (w namedOnce) Cases(ctx context.Context, env *Environment) ([]Case, error) {
	return namedCases(ctx, env, w.Name(), func() func() int {
		var last atomic.Int64
		return func() int { return int(last.Add(1)) }
	})
}

// namedHot measures 64 sessions that acquire and release the same lock, and wait in its
// line.
type namedHot struct{}

func (namedHot) Name() string { return "named-hot" }

func (w namedHot) Cases(ctx context.Context, env *Environment) ([]Case, error) {
	return namedCases(ctx, env, w.Name(), func() func() int { return func() int { return 0 } })
}

// namedCases returns the cases of the transports that have names. naming returns, for
// each measurement, a function that numbers the names.
func namedCases(ctx context.Context, env *Environment, workload string, naming func() (next func() int)) ([]Case, error) {
	return transportCases(ctx, env, both, func(f front, d Transport) []Case {
		if d.Name() == transportHTTP { // /l has no names
			return nil
		}
		clients := env.cfg.clients(namedClients)
		key := Key{Workload: workload, Transport: d.Name(), Sync: f.sync, Clients: clients}
		return []Case{{Key: key, Measure: withNames(d, 1, clients, func(ctx context.Context, names Pools, d time.Duration) (Sample, error) {
			next := naming()
			return checked(closedLoop(ctx, clients, d, timed(func(ctx context.Context, client int) error {
				return takeAndGive(ctx, names, client, next())
			})))
		})}}
	})
}
