package bench

import (
	"context"
	"math/rand/v2"
	"sync"
	"time"

	"github.com/kvslots/kvslots/kvslots/clock"
)

// arrivalTimes returns the times within d, from the start, at which requests of a
// Poisson process arrive, with a mean rate per second. The schedule depends only on the
// arguments, and has at least one arrival.
func arrivalTimes(rate float64, d time.Duration, seed uint64) []time.Duration {
	random := rand.New(rand.NewPCG(seed, 0))
	var times []time.Duration
	for at := 0.0; ; {
		at += random.ExpFloat64() / rate
		if at >= d.Seconds() && len(times) > 0 {
			return times
		}
		times = append(times, time.Duration(at*float64(time.Second)))
	}
}

// openLoop begins an operation at each of the times after the start, whether or not
// earlier ones have ended. At most clients operations run at once; an arrival without
// an idle client waits for one.
//
// The latency of an operation counts from its scheduled arrival. So a stall of the
// server delays all arrivals during the stall, and not only the few operations in
// flight (coordinated omission). The service times in Extra count from the time when
// the operation was sent.
func openLoop(ctx context.Context, clients int, times []time.Duration, do Action) Sample {
	var response tally
	var service recorder
	idle := make(chan int, clients)
	for client := range clients {
		idle <- client
	}
	var wg sync.WaitGroup
	began := time.Now()
	for _, at := range times {
		due := began.Add(at)
		clock.Sleep(ctx, time.Until(due))
		client := -1
		select {
		case client = <-idle:
		case <-ctx.Done():
		}
		if client < 0 {
			break
		}
		wg.Go(func() {
			defer func() { idle <- client }()
			sent := time.Now()
			err := do(ctx, client)
			ended := time.Now()
			response.add(ctx, client, ended.Sub(due), err)
			if err == nil {
				service.record(client, ended.Sub(sent))
			}
		})
	}
	wg.Wait()
	s := response.sample(time.Since(began))
	sent := service.histogram()
	s.Extra = map[string]float64{
		"service_p50_us": microseconds(percentile(sent, 50)),
		"service_p99_us": microseconds(percentile(sent, 99)),
	}
	return s
}
