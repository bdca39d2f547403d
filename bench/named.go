package bench

import (
	"context"
	"sync/atomic"
)

const namedClients = 64

// namedOnceCases measure 64 sessions that acquire and release locks, each with a new name.
func namedOnceCases(ctx context.Context, env *environment) ([]Case, error) {
	var last atomic.Int64
	return namedCases(ctx, env, namedOnce, func() int { return int(last.Add(1)) })
}

// namedHotCases measure 64 sessions that acquire and release the same lock, and wait in
// its line.
func namedHotCases(ctx context.Context, env *environment) ([]Case, error) {
	return namedCases(ctx, env, namedHot, onePool)
}

func namedCases(ctx context.Context, env *environment, workload string, pick func() int) ([]Case, error) {
	clients := env.cfg.clients(namedClients)
	return casesOf(ctx, env, both, load{
		key: Key{Workload: workload, Clients: clients}, named: true, slots: 1, clients: clients,
		measure: repeatedly(clients, pick),
	})
}
