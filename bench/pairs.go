package bench

import (
	"context"
	"errors"
	"time"

	"github.com/kvslots/kvslots/natsembed"
)

// pairer prepares pairs over a transport, a limit or a peer. It returns pair, which does
// one borrow and return of a client, and close, which may be nil.
type pairer func(ctx context.Context, clients int) (pair action, close cleanup, err error)

type (
	action  = func(ctx context.Context, client int) error
	cleanup = func(ctx context.Context) error
)

// pairsCases measure borrow and return, each client in its own pool. The latency is that of
// both. The limits and the peers are measured in turn with it.
func pairsCases(ctx context.Context, env *Environment) ([]Case, error) {
	gateways, err := env.gateways(ctx, natsembed.SyncAlways, natsembed.SyncInterval)
	if err != nil {
		return nil, err
	}
	var baselines []baseline
	if env.cfg.Limits {
		limits, err := env.limits(ctx, gateways)
		if err != nil {
			return nil, err
		}
		baselines = append(baselines, limits...)
	}
	if env.cfg.Peers {
		baselines = append(baselines, env.startPeers(ctx)...)
	}
	var cases []Case
	for _, clients := range env.cfg.Clients {
		for _, f := range gateways {
			for _, d := range f.transports {
				key := Key{Workload: pairs, Transport: d.Name(), Sync: string(f.sync), Clients: clients}
				cases = append(cases, pairsCase(key, transportPairs(d)))
			}
		}
		for _, r := range baselines {
			key := Key{Workload: pairs, Transport: r.name, Sync: r.durability, Clients: clients}
			if r.once {
				if clients != env.cfg.Clients[0] {
					continue
				}
				key.Clients = 1
			}
			cases = append(cases, pairsCase(key, r.pairs))
		}
	}
	return cases, nil
}

// baseline is a limit or a peer, with which transports are compared.
type baseline struct {
	name       string
	durability string // in its own words
	once       bool   // measured with one operation in flight only
	pairs      pairer
}

func pairsCase(key Key, p pairer) Case {
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

// checked returns an error for a sample without any operation.
func checked(s Sample) (Sample, error) {
	if s.Operations == 0 {
		return s, errors.Join(errNothingMeasured, s.FirstError)
	}
	return s, nil
}

var errNothingMeasured = errors.New("bench: no operation ended within the duration")

func transportPairs(d Transport) pairer {
	return func(ctx context.Context, clients int) (action, cleanup, error) {
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
