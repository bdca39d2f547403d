package bench

import (
	"context"
	"sync"
	"sync/atomic"
	"time"

	"github.com/kvslots/kvslots/kvslots/clock"
)

// cycle is an operation that a client repeats. It returns the latency to record. Cycles
// of one client never run concurrently.
type cycle func(ctx context.Context, client int) (time.Duration, error)

func timed(do Action) cycle {
	return func(ctx context.Context, client int) (time.Duration, error) {
		began := time.Now()
		err := do(ctx, client)
		return time.Since(began), err
	}
}

// closedLoop runs clients that repeat a cycle, each client one cycle after the other,
// until the window closes. If ctx ends first, the cycles in flight are still counted.
func closedLoop(ctx context.Context, clients int, d time.Duration, do cycle) Sample {
	w := newWindow(clients, d)
	var t tally
	var wg sync.WaitGroup
	for client := range clients {
		wg.Go(func() {
			for ctx.Err() == nil && w.open() {
				latency, err := do(ctx, client)
				if err != nil {
					w.failed(time.Now())
					t.add(ctx, client, latency, err)
					clock.Sleep(ctx, errorPause)
				} else if w.succeeded(time.Now()) {
					t.add(ctx, client, latency, nil)
				}
			}
		})
	}
	wg.Wait()
	return t.sample(w.elapsed())
}

// errorPause keeps clients from spinning while a server refuses them.
const errorPause = time.Millisecond

type tally struct {
	recorder   recorder
	operations atomic.Int64
	errors     atomic.Int64
	once       sync.Once
	first      error
}

// add counts an operation. It ignores failures after the end of ctx.
func (t *tally) add(ctx context.Context, client int, latency time.Duration, err error) {
	if err == nil {
		t.operations.Add(1)
		t.recorder.record(client, latency)
		return
	}
	if ctx.Err() == nil {
		t.errors.Add(1)
		t.once.Do(func() { t.first = err })
	}
}

func (t *tally) sample(elapsed time.Duration) Sample {
	return Sample{
		Operations: t.operations.Load(), Errors: t.errors.Load(), FirstError: t.first,
		Elapsed: elapsed, Latency: t.recorder.histogram(),
	}
}

// forEach calls do for 0 … n−1, at most 64 calls at once. After the first error it
// starts no more calls, and returns that error.
func forEach(n int, do func(i int) error) error {
	var next, failed atomic.Int64
	var once sync.Once
	var first error
	var wg sync.WaitGroup
	for range min(n, 64) {
		wg.Go(func() {
			for i := int(next.Add(1)) - 1; i < n && failed.Load() == 0; i = int(next.Add(1)) - 1 {
				if err := do(i); err != nil {
					failed.Add(1)
					once.Do(func() { first = err })
				}
			}
		})
	}
	wg.Wait()
	return first
}
