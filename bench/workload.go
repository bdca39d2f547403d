// Package bench puts load on kvslots and says what it took. A workload is a
// cycle that is repeated by several clients at once; percentiles are plain
// code. What is compared is run in turn, in one go, on one server: on a noisy
// machine only the ratios mean anything.
package bench

import (
	"context"
	"sync"
	"sync/atomic"
	"time"
)

// Workload is something that clients do again and again.
type Workload interface {
	// Name is what the results call it.
	Name() string

	// Cycle does it once. client is the number of the client, from 0 on; no
	// two cycles of one client run at the same time.
	Cycle(ctx context.Context, client int) error
}

// Result is what one run of a workload took.
type Result struct {
	Name    string
	Cycles  int
	Errors  int
	Elapsed time.Duration
	Latency Latencies // of the cycles that went well
}

// PerSecond is the number of cycles a second.
func (r Result) PerSecond() float64 { return float64(r.Cycles) / r.Elapsed.Seconds() }

// Run has a number of clients repeat a workload for a time.
func Run(ctx context.Context, w Workload, clients int, d time.Duration) Result {
	ctx, cancel := context.WithTimeout(ctx, d+time.Minute)
	defer cancel()
	var wg sync.WaitGroup
	var failed atomic.Int64
	latencies := make([]Latencies, clients)
	began := time.Now()
	for client := range clients {
		wg.Go(func() {
			for time.Since(began) < d && ctx.Err() == nil {
				start := time.Now()
				if err := w.Cycle(ctx, client); err != nil {
					failed.Add(1)
					continue
				}
				latencies[client] = append(latencies[client], time.Since(start))
			}
		})
	}
	wg.Wait()
	r := Result{Name: w.Name(), Errors: int(failed.Load()), Elapsed: time.Since(began)}
	for _, l := range latencies {
		r.Latency = append(r.Latency, l...)
	}
	r.Cycles = len(r.Latency)
	return r
}
