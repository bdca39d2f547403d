package bench

import (
	"context"
	"errors"
	"time"
)

// Pairer prepares pairs, for clients 0 … clients−1. It returns pair, which does one borrow
// and return of a client, and close, which may be nil.
type Pairer func(ctx context.Context, clients int) (pair Action, close Cleanup, err error)

type (
	Action = func(ctx context.Context, client int) error

	// Cleanup removes what actions have left.
	Cleanup = func(ctx context.Context) error
)

// pairsCases measure borrow and return, each client in its own pool. The latency is that of
// both. Config.Baselines are measured in turn with it.
func pairsCases(ctx context.Context, env *environment) ([]Case, error) {
	gateways, err := env.measured(ctx, both...)
	if err != nil {
		return nil, err
	}
	var baselines []Baseline
	if env.cfg.Baselines != nil {
		if baselines, err = env.cfg.Baselines(ctx, gateways); err != nil {
			return nil, err
		}
	}
	var cases []Case
	for _, clients := range env.cfg.Clients {
		for _, g := range gateways {
			for _, d := range g.Transports {
				key := Key{Workload: pairs, Transport: d.Name(), Sync: g.Sync, Clients: clients}
				cases = append(cases, pairsCase(key, PairsOver(d)))
			}
		}
		for _, r := range baselines {
			key := Key{Workload: pairs, Transport: r.Name, Sync: r.Durability, Clients: clients}
			if r.Once {
				if clients != env.cfg.Clients[0] {
					continue
				}
				key.Clients = 1
			}
			cases = append(cases, pairsCase(key, r.Pairs))
		}
	}
	return cases, nil
}

// Baseline is a limit or another lock server, with which transports are compared.
type Baseline struct {
	Name       string // the Key's Transport
	Durability string // in its own words: the Key's Sync
	Once       bool   // measured with one operation in flight only
	Pairs      Pairer
}

func pairsCase(key Key, p Pairer) Case {
	return Case{Key: key, Measure: func(ctx context.Context, d time.Duration) (Sample, error) {
		pair, closePairs, err := p(ctx, key.Clients)
		if closePairs != nil {
			defer func() { _ = bounded(closePairs)() }()
		}
		if err != nil {
			return Sample{}, err
		}
		return checked(closedLoop(ctx, key.Clients, d, timed(pair)))
	}}
}

func checked(s Sample) (Sample, error) {
	if s.Operations == 0 {
		return s, errors.Join(errNothingMeasured, s.FirstError)
	}
	return s, nil
}

var errNothingMeasured = errors.New("bench: no operation ended within the duration")

// PairsOver returns pairs over a transport.
func PairsOver(d Transport) Pairer {
	return func(ctx context.Context, clients int) (Action, Cleanup, error) {
		pools, err := d.Pools(ctx, clients, 1, clients)
		if err != nil {
			return nil, closeOf(pools), err
		}
		return func(ctx context.Context, client int) error { return takeAndGive(ctx, pools, client, client) }, pools.Close, nil
	}
}

// closeOf returns pools.Close, or nil if pools is nil. Registration may have failed
// halfway.
func closeOf(pools Pools) func(ctx context.Context) error {
	if pools == nil {
		return nil
	}
	return pools.Close
}

func takeAndGive(ctx context.Context, pools Pools, client, pool int) error {
	held, err := pools.Take(ctx, client, pool, longTTL, time.Minute)
	if err != nil {
		return err
	}
	return pools.Give(ctx, client, pool, held)
}
