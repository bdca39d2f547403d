package bench

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/kvslots/kvslots/kvslots/clock"
)

var lineLengths = []int{1, 10, 100, 1000}

// handoverCases measure one lock with 1, 10, 100 and 1,000 waiters. The latency is from the
// beginning of the return to the arrival of the next waiter's answer. No other request is
// under way then, so that it is the same work with any number of waiters. With Gateway.Store they also
// count the claims that the peer sends for each grant.
func handoverCases(ctx context.Context, env *environment) ([]Case, error) {
	var loads []load
	for _, waiters := range env.cfg.scaled(lineLengths) {
		loads = append(loads, load{
			key: Key{Workload: handover, Size: waiters}, pools: 1, slots: 1, clients: waiters + 1,
			measure: func(ctx context.Context, g *Gateway, pools Pools, d time.Duration) (Sample, error) {
				return measureHandover(ctx, pools, g, waiters, d)
			},
		})
	}
	return casesOf(ctx, env, interval, loads...)
}

type turn struct {
	held Held
	at   time.Time
}

// measureHandover returns the lock repeatedly on behalf of the waiters. Each waiter
// joins the line again as soon as it was granted the lock. With one waiter, the lock
// cannot be handed over before that; with more of them measureHandover waits for it
// too, or the joining would be a part of the measured time.
func measureHandover(ctx context.Context, pools Pools, g *Gateway, waiters int, d time.Duration) (Sample, error) {
	held, err := pools.Take(ctx, 0, 0, longTTL, 0)
	if err != nil {
		return Sample{}, err
	}
	turns := make(chan turn, waiters)
	line, leave := context.WithCancel(ctx)
	var wg sync.WaitGroup
	defer wg.Wait()
	defer leave()
	var t tally
	for client := 1; client <= waiters; client++ {
		wg.Go(func() { standInLine(line, pools, client, turns, &t) })
	}
	if err := awaitLine(ctx, pools, waiters); err != nil {
		return Sample{}, err
	}
	grants, before := 0, g.claims()
	w := newWindow(1, d)
	for ctx.Err() == nil && w.open() {
		if err := awaitLine(ctx, pools, waiters); err != nil {
			return Sample{}, err
		}
		took, err := passOn(ctx, pools, &held, turns)
		if err != nil {
			t.add(ctx, 0, took, err)
			break
		}
		if w.succeeded(time.Now()) {
			t.add(ctx, 0, took, nil)
		}
		grants++
	}
	s, err := checked(t.sample(w.elapsed()))
	if g.Store != nil && grants > 0 {
		s.Extra = map[string]float64{"claims_per_grant": float64(g.claims()-before) / float64(grants)}
	}
	return s, err
}

func passOn(ctx context.Context, pools Pools, held *Held, turns <-chan turn) (time.Duration, error) {
	began := time.Now()
	if err := pools.Give(ctx, 0, 0, *held); err != nil {
		return 0, err
	}
	limit, cancel := context.WithTimeout(ctx, time.Minute)
	defer cancel()
	select {
	case next := <-turns:
		*held = next.held
		return next.at.Sub(began), nil
	case <-limit.Done():
		return 0, context.Cause(limit)
	}
}

func standInLine(ctx context.Context, pools Pools, client int, turns chan<- turn, t *tally) {
	for ctx.Err() == nil {
		held, err := pools.Take(ctx, client, 0, longTTL, longWait)
		if err != nil {
			t.add(ctx, client, 0, err)
			clock.Sleep(ctx, errorPause)
			continue
		}
		turns <- turn{held, time.Now()}
	}
}

// awaitLine waits for at most a minute until the line has n waiters. It repeats requests
// that fail.
func awaitLine(ctx context.Context, pools Pools, n int) error {
	limit, cancel := context.WithTimeout(ctx, time.Minute)
	defer cancel()
	began := time.Now()
	for {
		waiting, err := pools.Waiting(limit, 0)
		if err == nil && waiting >= n {
			return nil
		}
		// Pause long enough that these requests, which /v1 answers with the whole
		// line, are not a load of their own.
		clock.Sleep(limit, max(200*time.Microsecond, time.Since(began)/8))
		if limit.Err() != nil {
			return fmt.Errorf("bench: the line has %d waiters instead of %d: %w", waiting, n, errors.Join(context.Cause(limit), err))
		}
	}
}
