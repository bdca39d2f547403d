package bench

import (
	"context"
	"errors"
	"sync"
	"sync/atomic"
	"time"
)

// cycle is what a client repeats. It returns the latency to record. No two
// cycles of one client run at the same time.
type cycle func(ctx context.Context, client int) (time.Duration, error)

// timed makes a cycle of which all counts as latency.
func timed(do func(ctx context.Context, client int) error) cycle {
	return func(ctx context.Context, client int) (time.Duration, error) {
		began := time.Now()
		err := do(ctx, client)
		return time.Since(began), err
	}
}

// closedLoop has a number of clients repeat a cycle for d, each beginning the
// next one when the last has ended, after a warm-up of a fifth of that which is
// not counted. A cycle counts if it ends within the measured time, which lasts
// until one has: on a machine that is very busy, longer than d. When ctx ends
// first, the cycles under way are counted as they end.
func closedLoop(ctx context.Context, clients int, d time.Duration, do cycle) Sample {
	w := newWindow(d)
	var t tally
	var wg sync.WaitGroup
	for client := range clients {
		wg.Go(func() {
			for ctx.Err() == nil && w.open(&t, time.Now()) {
				latency, err := do(ctx, client)
				if now := time.Now(); err != nil || w.counts(&t, now) {
					t.add(ctx, client, latency, err)
				}
				if err != nil {
					pause(ctx, errorPause)
				}
			}
		})
	}
	wg.Wait()
	return t.sample(w.elapsed())
}

// window is the measured time.
type window struct {
	begins, ends time.Time
	mu           sync.Mutex
	last         time.Time // the end of the operation that came late, if there is one
}

// newWindow begins after a warm-up of a fifth of d, and lasts for d.
func newWindow(d time.Duration) *window {
	begins := time.Now().Add(d / 5)
	return &window{begins: begins, ends: begins.Add(d)}
}

// open reports whether another operation is to begin at the time now: until the
// end, or until anything was counted.
func (w *window) open(t *tally, now time.Time) bool {
	return now.Before(w.ends) || t.operations.Load() == 0 && t.errors.Load() == 0
}

// counts reports whether an operation that succeeded at the time now is counted.
// Of those that end late only the first is, and only if none was in time.
func (w *window) counts(t *tally, now time.Time) bool {
	if now.Before(w.begins) {
		return false
	}
	if !now.After(w.ends) {
		return true
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	if !w.last.IsZero() || t.operations.Load() > 0 {
		return false
	}
	w.last = now
	return true
}

// elapsed is called when all operations have ended.
func (w *window) elapsed() time.Duration {
	if w.last.IsZero() {
		return w.ends.Sub(w.begins)
	}
	return w.last.Sub(w.begins)
}

// errorPause keeps clients from spinning while a server refuses them.
const errorPause = time.Millisecond

// tally counts operations of concurrent clients.
type tally struct {
	recorder   recorder
	operations atomic.Int64
	errors     atomic.Int64
	once       sync.Once
	first      error
}

// add counts an operation. A failure because ctx has ended is not the server's.
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

// sample is called when no client runs any more.
func (t *tally) sample(elapsed time.Duration) Sample {
	return Sample{
		Operations: t.operations.Load(), Errors: t.errors.Load(), FirstError: t.first,
		Elapsed: elapsed, Latency: t.recorder.histogram(),
	}
}

// pause waits for d, or until ctx ends.
func pause(ctx context.Context, d time.Duration) {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-ctx.Done():
	case <-timer.C:
	}
}

// forEach does something for 0 … n−1, at most 64 at once, and returns what
// failed. After a failure it begins nothing more.
func forEach(n int, do func(i int) error) error {
	var next, failed atomic.Int64
	var mu sync.Mutex
	var all error
	var wg sync.WaitGroup
	for range min(n, 64) {
		wg.Go(func() {
			for i := int(next.Add(1)) - 1; i < n && failed.Load() == 0; i = int(next.Add(1)) - 1 {
				if err := do(i); err != nil {
					failed.Add(1)
					mu.Lock()
					all = errors.Join(all, err)
					mu.Unlock()
				}
			}
		})
	}
	wg.Wait()
	return all
}
