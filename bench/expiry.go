package bench

import (
	"context"
	"sync"
	"time"

	"github.com/kvslots/kvslots/kvslots/clock"
)

const (
	expiryLocks = 200
	expiryTTL   = time.Second

	// expiryTime is the minimal duration of a measurement.
	expiryTime = 2 * time.Second
)

// expiryCases measure 200 locks whose leases of a second are not returned. The latency is
// from the end of a lease to the arrival of the next waiter's answer. The ends of the
// leases are spread evenly over the second.
func expiryCases(ctx context.Context, env *environment) ([]Case, error) {
	locks := max(1, expiryLocks/env.cfg.Scale)
	return casesOf(ctx, env, interval, load{
		key: Key{Workload: expiry, Size: locks}, pools: locks, slots: 1, clients: locks,
		measure: func(ctx context.Context, _ *Gateway, pools Pools, d time.Duration) (Sample, error) {
			return checked(measureExpiry(ctx, pools, locks, max(d, expiryTime/time.Duration(env.cfg.Scale))))
		},
	})
}

func measureExpiry(ctx context.Context, pools Pools, locks int, d time.Duration) Sample {
	var t tally
	var wg sync.WaitGroup
	began := time.Now()
	ends := began.Add(d)
	for i := range locks {
		wg.Go(func() {
			clock.Sleep(ctx, expiryTTL*time.Duration(i)/time.Duration(locks))
			held, err := pools.Take(ctx, i, i, expiryTTL, time.Minute)
			// Wait for one expiry at least, even if d is shorter.
			for more := true; err == nil && more; more = time.Now().Before(ends) {
				ended := held.Ends
				held, err = pools.Take(ctx, i, i, expiryTTL, time.Minute)
				t.add(ctx, i, time.Since(ended), err)
			}
		})
	}
	wg.Wait()
	return t.sample(time.Since(began))
}
