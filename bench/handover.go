package bench

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"sync/atomic"
	"time"

	"github.com/nats-io/nats.go"
)

// handover is one lock with 1, 10, 100 and 1,000 waiters. The latency is from the
// beginning of the return to the instant at which the next in line has its
// answer. It counts, at a gateway of ours, the claims that are written for each
// grant.
type handover struct{}

func (handover) Name() string { return "handover" }

var lineLengths = []int{1, 10, 100, 1000}

func (w handover) Cases(ctx context.Context, env *Environment) ([]Case, error) {
	return doorCases(ctx, env, interval, func(f front, d Door) (cases []Case) {
		for _, waiters := range env.cfg.scaled(lineLengths) {
			key := Key{Workload: w.Name(), Door: d.Name(), Sync: f.sync, Size: waiters}
			cases = append(cases, Case{Key: key, Measure: withPools(d, 1, 1, waiters+1, func(ctx context.Context, pools Pools, d time.Duration) (Sample, error) {
				return measureHandover(ctx, pools, f.rig, waiters, d)
			})})
		}
		return cases
	})
}

// turn is a grant, as the waiter has seen it.
type turn struct {
	held Held
	at   time.Time
}

// measureHandover returns the lock again and again on behalf of the waiters, who
// go back into the line as soon as they have been granted it.
func measureHandover(ctx context.Context, pools Pools, r *rig, waiters int, d time.Duration) (Sample, error) {
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
	claims, err := countClaims(r)
	if err != nil {
		return Sample{}, err
	}
	defer claims.stop()
	w := newWindow(1, d)
	for ctx.Err() == nil && w.open() {
		if waiters == 1 { // the one that was granted it last must be back
			if err := awaitLine(ctx, pools, 1); err != nil {
				return Sample{}, err
			}
		}
		took, err := passOn(ctx, pools, &held, turns)
		if err != nil {
			t.add(ctx, 0, took, err)
			break
		}
		if w.succeeded(time.Now()) {
			t.add(ctx, 0, took, nil)
		}
		claims.grants++
	}
	s, err := checked(t.sample(w.elapsed()))
	s.Extra = claims.perGrant()
	return s, err
}

// passOn returns what is held, and waits until the next in line has it.
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

// standInLine waits for the lock, hands it over to be passed on, and waits
// again.
func standInLine(ctx context.Context, pools Pools, client int, turns chan<- turn, t *tally) {
	for ctx.Err() == nil {
		held, err := pools.Take(ctx, client, 0, longTTL, longWait)
		if err != nil {
			t.add(ctx, client, 0, err)
			pause(ctx, errorPause)
			continue
		}
		turns <- turn{held, time.Now()}
	}
}

// awaitLine waits until so many stand in line, for a minute at most. A gateway
// that does not say for the moment is asked again.
func awaitLine(ctx context.Context, pools Pools, n int) error {
	limit, cancel := context.WithTimeout(ctx, time.Minute)
	defer cancel()
	began := time.Now()
	for {
		waiting, err := pools.Waiting(limit, 0)
		if err == nil && waiting >= n {
			return nil
		}
		// Rarely enough that the asking, which /v1 answers with the whole line,
		// does not become the load.
		pause(limit, max(200*time.Microsecond, time.Since(began)/8))
		if limit.Err() != nil {
			return fmt.Errorf("bench: %d stood in line instead of %d: %w", waiting, n, errors.Join(context.Cause(limit), err))
		}
	}
}

// claimCounter counts the claims of slots that peers publish.
type claimCounter struct {
	subscription *nats.Subscription // nil if they cannot be seen
	conn         *nats.Conn
	claims       atomic.Int64
	grants       int64
}

// slotSubjects are where slots are written (kvslots/DESIGN.md, "The bucket").
const slotSubjects = "$KV.kvslots.p.*.s.*"

func countClaims(r *rig) (*claimCounter, error) {
	c := &claimCounter{}
	if r == nil {
		return c, nil
	}
	var err error
	c.conn = r.inner
	c.subscription, err = r.inner.Subscribe(slotSubjects, func(m *nats.Msg) {
		if m.Header.Get("KV-Operation") == "" { // else it is a return's marker
			c.claims.Add(1)
		}
	})
	if err == nil {
		err = r.inner.Flush()
	}
	return c, err
}

func (c *claimCounter) stop() {
	if c.subscription != nil {
		_ = c.subscription.Unsubscribe()
	}
}

// awaitCounted waits until what has arrived is counted, but for a second at most.
func (c *claimCounter) awaitCounted() {
	ctx, cancel := context.WithTimeout(context.Background(), time.Second)
	defer cancel()
	for ctx.Err() == nil {
		if n, _, err := c.subscription.Pending(); err != nil || n == 0 {
			return
		}
		pause(ctx, time.Millisecond)
	}
}

// perGrant is of all grants since the counter was made.
func (c *claimCounter) perGrant() map[string]float64 {
	if c.subscription == nil || c.grants == 0 || c.conn.Flush() != nil {
		return nil
	}
	c.awaitCounted()
	return map[string]float64{"claims_per_grant": float64(c.claims.Load()) / float64(c.grants)}
}
