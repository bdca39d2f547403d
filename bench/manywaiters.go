package bench

import (
	"context"
	"errors"
	"runtime"
	"time"

	"github.com/kvslots/kvslots/kvslots/clock"
)

var waiterNumbers = []int{1000, 10_000}

// manyWaitersCases measure 1,000 and 10,000 borrowers in the line of one lock: the time
// until all have joined it, and with Gateway.Store the memory of this process per waiter
// and the processor time while nothing happens. The memory of the kernel is not counted.
func manyWaitersCases(ctx context.Context, env *environment) ([]Case, error) {
	g, err := env.freshGateway(ctx)
	if err == nil {
		err = env.endWorkload() // only its transports and its sync mode are needed here
	}
	if err != nil {
		return nil, err
	}
	var cases []Case
	for i, transport := range g.Transports {
		for _, n := range env.cfg.scaled(waiterNumbers) {
			l := load{
				key: Key{Workload: manyWaiters, Size: n}, pools: 1, slots: 1, clients: n,
				measure: func(ctx context.Context, g *Gateway, pools Pools, d time.Duration) (Sample, error) {
					return measureWaiters(ctx, pools, n, d, g.Store != nil)
				},
			}
			c := l.over(g, transport)
			c.Once, c.Measure = true, l.atNewGateway(env, i)
			cases = append(cases, c)
		}
	}
	return cases, nil
}

// atNewGateway starts a new gateway each time, and measures its transport with an index:
// memory of earlier waiters that is not freed yet would change the result.
func (l load) atNewGateway(env *environment, transport int) func(ctx context.Context, d time.Duration) (Sample, error) {
	return func(ctx context.Context, d time.Duration) (s Sample, err error) {
		g, err := env.freshGateway(ctx)
		if err != nil {
			return Sample{}, err
		}
		defer func() { err = errors.Join(err, env.endWorkload()) }()
		return l.over(g, g.Transports[transport]).Measure(ctx, d)
	}
}

func measureWaiters(ctx context.Context, pools Pools, n int, d time.Duration, inProcess bool) (Sample, error) {
	if _, err := pools.Take(ctx, 0, 0, longTTL, 0); err != nil {
		return Sample{}, err
	}
	var before uint64
	if inProcess {
		before = memoryInUse()
	}
	began := time.Now()
	leave, err := pools.Queue(ctx, 0)
	if err != nil {
		return Sample{}, err
	}
	defer func() { _ = leave() }()
	if err := awaitLine(ctx, pools, n); err != nil {
		return Sample{}, errors.Join(err, leave())
	}
	s := Sample{Elapsed: time.Since(began)}
	s.Extra = map[string]float64{"joins_per_second": float64(n) / s.Elapsed.Seconds()}
	if !inProcess {
		return s, nil
	}
	s.Extra["kib_per_waiter"] = (float64(memoryInUse()) - float64(before)) / 1024 / float64(n)
	idle := processorTime()
	idleFrom := time.Now()
	clock.Sleep(ctx, d)
	if used := processorTime() - idle; used > 0 {
		s.Extra["idle_cpu_percent"] = 100 * used.Seconds() / time.Since(idleFrom).Seconds()
	}
	return s, nil
}

// memoryInUse returns the size of heap and stacks after a collection, in bytes.
func memoryInUse() uint64 {
	runtime.GC()
	runtime.GC() // frees objects that finalizers have released
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	return m.HeapInuse + m.StackInuse
}
