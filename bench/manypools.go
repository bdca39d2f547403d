package bench

import (
	"context"
	"math/rand/v2"
	"sync"
	"time"
)

var poolNumbers = []int{1, 1000, 100_000}

// manyPoolsCases measure 64 clients that borrow and return in pools picked at random out of
// 1, 1,000 and 100,000 of 1,000 slots, each time at a gateway without other pools. All
// transports of a testbed use the same pools.
func manyPoolsCases(ctx context.Context, env *Environment) (cases []Case, err error) {
	clients := env.cfg.clients(sharedClients)
	for _, n := range env.cfg.scaled(poolNumbers) {
		f, err := env.freshGateway(ctx)
		if err != nil {
			return nil, err
		}
		l := load{
			key: Key{Workload: manyPools, Clients: clients, Size: n}, pools: n, slots: bigPool, clients: clients,
			measure: repeatedly(clients, func() int { return rand.IntN(n) }),
		}
		registered := l.registered(f)
		for _, transport := range f.transports {
			transport, ok := transport.(poolTransport)
			if !ok { // its gateway closes unused names
				continue
			}
			c := l.over(f, transport)
			if f.store != nil {
				c.Measure = l.shared(f, transport, registered)
			}
			cases = append(cases, c)
		}
	}
	return cases, nil
}

// registered returns a function that registers the pools at a testbed when it is first called.
func (l load) registered(r *testbed) func() (*clientPools, error) {
	return sync.OnceValues(func() (*clientPools, error) {
		p := &clientPools{api: r.store, ids: newIDs(l.pools)}
		return p, p.register(context.Background(), l.slots)
	})
}

// shared measures a transport in pools that it does not delete, on connections that stay open
// for all repetitions.
func (l load) shared(r *testbed, transport poolTransport, registered func() (*clientPools, error)) func(ctx context.Context, d time.Duration) (Sample, error) {
	open := sync.OnceValues(func() (Pools, error) {
		p, err := registered()
		if err != nil {
			return nil, err
		}
		return transport.Share(p.ids, l.clients)
	})
	return func(ctx context.Context, d time.Duration) (Sample, error) {
		pools, err := open()
		if err != nil {
			return Sample{}, err
		}
		return l.measure(ctx, r, pools, d)
	}
}
