package bench

import (
	"context"
	"math/rand/v2"
	"sync"
	"time"
)

var poolNumbers = []int{1, 1000, 100_000}

// manyPoolsCases measure 64 clients that borrow and return in pools picked at random out of
// 1, 1,000 and 100,000 of 1,000 slots, each time at a gateway without other pools. With
// Gateway.Store all transports use the same pools.
func manyPoolsCases(ctx context.Context, env *environment) (cases []Case, err error) {
	clients := env.cfg.clients(sharedClients)
	for _, n := range env.cfg.scaled(poolNumbers) {
		g, err := env.freshGateway(ctx)
		if err != nil {
			return nil, err
		}
		l := load{
			key: Key{Workload: manyPools, Clients: clients, Size: n}, pools: n, slots: bigPool, clients: clients,
			measure: repeatedly(clients, func() int { return rand.IntN(n) }),
		}
		registered := l.registered(g)
		for _, transport := range g.Transports {
			transport, ok := transport.(poolTransport)
			if !ok { // its gateway closes unused names
				continue
			}
			c := l.over(g, transport)
			if g.Store != nil {
				c.Measure = l.shared(g, transport, registered)
			}
			cases = append(cases, c)
		}
	}
	return cases, nil
}

// registered returns a function that registers the pools in Gateway.Store when it is first called.
func (l load) registered(g *Gateway) func() (*clientPools, error) {
	return sync.OnceValues(func() (*clientPools, error) {
		p := &clientPools{api: g.Store, ids: newIDs(l.pools)}
		return p, p.register(context.Background(), l.slots)
	})
}

// shared measures a transport in pools that it does not delete, on connections that stay open
// for all repetitions.
func (l load) shared(g *Gateway, transport poolTransport, registered func() (*clientPools, error)) func(ctx context.Context, d time.Duration) (Sample, error) {
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
		return l.measure(ctx, g, pools, d)
	}
}
