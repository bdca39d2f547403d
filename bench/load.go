package bench

import (
	"context"
	"errors"
	"sync"
	"time"
)

// The sync modes of workloads: both if the time of the disk matters, and interval if
// that time would hide the measured time.
var (
	both     = []string{syncAlways, syncInterval}
	interval = []string{syncInterval}
)

// load is a measurement with pools for its clients, which any transport can carry.
type load struct {
	key                   Key  // without transport and sync mode
	pools, slots, clients int  // clients use pools with slots each
	named                 bool // the pools are locks or semaphores

	// measure measures for about d.
	measure func(ctx context.Context, g *Gateway, pools Pools, d time.Duration) (Sample, error)
}

// casesOf returns a case of each load for each transport of each gateway with one of the
// sync modes.
func casesOf(ctx context.Context, env *environment, syncs []string, loads ...load) (cases []Case, err error) {
	gateways, err := env.measured(ctx, syncs...)
	if err != nil {
		return nil, err
	}
	for _, g := range gateways {
		for _, transport := range g.Transports {
			for _, l := range loads {
				if l.named && transport.Name() == transportHTTP { // /l has no names
					continue
				}
				cases = append(cases, l.over(g, transport))
			}
		}
	}
	return cases, nil
}

func (l load) over(g *Gateway, transport Transport) Case {
	key := l.key
	key.Transport, key.Sync = transport.Name(), g.Sync
	return Case{Key: key, Measure: func(ctx context.Context, d time.Duration) (Sample, error) {
		open := func() (Pools, error) { return transport.Pools(ctx, l.pools, l.slots, l.clients) }
		if l.named {
			open = func() (Pools, error) { return transport.Named(ctx, l.slots, l.clients) }
		}
		pools, err := open()
		if pools == nil {
			return Sample{}, err
		}
		closing := sync.OnceValue(func() error { return closeAgain(pools) })
		defer func() { _ = closing() }()
		if err != nil {
			return Sample{}, err
		}
		s, err := l.measure(ctx, g, pools, d)
		return s, errors.Join(err, closing())
	}}
}

// closeAgain closes pools, in up to three attempts: a busy server may not answer in
// time.
func closeAgain(pools Pools) (err error) {
	for range 3 {
		if err = bounded(pools.Close)(); err == nil {
			return nil
		}
	}
	return err
}

// repeatedly returns a measure of clients that borrow and return all the time, in the
// pools that pick returns.
func repeatedly(clients int, pick func() (pool int)) func(context.Context, *Gateway, Pools, time.Duration) (Sample, error) {
	return func(ctx context.Context, _ *Gateway, pools Pools, d time.Duration) (Sample, error) {
		return checked(closedLoop(ctx, clients, d, timed(func(ctx context.Context, client int) error {
			return takeAndGive(ctx, pools, client, pick())
		})))
	}
}

func onePool() int { return 0 }

// closeTimeout bounds one attempt to close pools.
const closeTimeout = 20 * time.Second

// bounded returns a call of f with a context that ends after closeTimeout.
func bounded(f Cleanup) func() error {
	return func() error {
		ctx, cancel := context.WithTimeout(context.Background(), closeTimeout)
		defer cancel()
		return f(ctx)
	}
}
