package bench

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"slices"
	"time"
)

type Config struct {
	// Server is the gateway to measure. Without it, Start starts a gateway with a sync
	// mode, one of SyncNames, on an empty directory. Run closes what Start returns.
	Server *Gateway
	Start  func(ctx context.Context, sync string) (*Gateway, error)

	// Workloads, Transports and Syncs select what is measured; empty means all.
	// With Server, Syncs is ignored.
	Workloads, Transports, Syncs []string

	// Duration is the time for which each repetition of a case is measured, at
	// least 10 ms, after a warm-up of a fifth of it; 0 means 400 ms. Repetitions is
	// the number of repetitions, 1 … 100; 0 means 3.
	Duration    time.Duration
	Repetitions int

	// Clients are the numbers of operations in flight of the workload pairs,
	// each 1 … 4096; empty means 1, 8, 64 and 512. Scale divides the numbers of
	// clients, pools, waiters and slots of the other workloads, for a short run; 0
	// means 1.
	Clients []int
	Scale   int

	// Rate is the number of arrivals per second of the workload arrivals, at least
	// 1; 0 means 1,000.
	Rate float64

	// Baselines returns what is measured in turn with the workload pairs of gateways; nil
	// means nothing.
	Baselines func(ctx context.Context, gateways []*Gateway) ([]Baseline, error)

	// Progress receives a line for each repetition; nil means none.
	Progress io.Writer
}

const (
	DefaultDuration    = 400 * time.Millisecond
	DefaultRepetitions = 3
	DefaultRate        = 1000
)

const (
	syncAlways   = "always"   // flushed before the answer
	syncInterval = "interval" // flushed once a second
)

// SyncNames returns the valid values of Config.Syncs.
func SyncNames() []string { return []string{syncAlways, syncInterval} }

func (c Config) withDefaults() (Config, error) {
	c.Duration, c.Repetitions = cmp.Or(c.Duration, DefaultDuration), cmp.Or(c.Repetitions, DefaultRepetitions)
	c.Rate, c.Scale = cmp.Or(c.Rate, DefaultRate), cmp.Or(c.Scale, 1)
	if len(c.Clients) == 0 {
		c.Clients = []int{1, 8, 64, 512}
	}
	var wrong error
	c.Workloads, wrong = oneOf("workload", c.Workloads, c.defaultWorkloads(), WorkloadNames(), wrong)
	c.Transports, wrong = oneOf("transport", c.Transports, append(TransportNames(), TransportLibrary), append(TransportNames(), TransportLibrary), wrong)
	c.Syncs, wrong = oneOf("sync", c.Syncs, SyncNames(), SyncNames(), wrong)
	switch {
	case c.Server == nil && c.Start == nil:
		wrong = errors.Join(wrong, errors.New("bench: there is no gateway to measure"))
	case c.Duration < 10*time.Millisecond:
		wrong = errors.Join(wrong, errors.New("bench: the duration must be 10ms or more"))
	case c.Repetitions < 1 || c.Repetitions > 100:
		wrong = errors.Join(wrong, errors.New("bench: there must be 1 to 100 repetitions"))
	case c.Rate < 1:
		wrong = errors.Join(wrong, errors.New("bench: the rate must be 1 a second or more"))
	case c.Scale < 1:
		wrong = errors.Join(wrong, errors.New("bench: the scale must be 1 or more"))
	case slices.ContainsFunc(c.Clients, func(n int) bool { return n < 1 || n > 4096 }):
		wrong = errors.Join(wrong, errors.New("bench: the numbers of clients must be 1 to 4096"))
	}
	return c, wrong
}

// defaultWorkloads returns all workloads, and for Config.Server only those that do not
// leave very many markers in its bucket.
func (c Config) defaultWorkloads() []string {
	if c.Server == nil {
		return WorkloadNames()
	}
	return slices.DeleteFunc(WorkloadNames(), func(name string) bool {
		return name == manyPools || name == manyWaiters
	})
}

func oneOf(what string, given, otherwise, allowed []string, wrong error) ([]string, error) {
	if len(given) == 0 {
		return otherwise, wrong
	}
	for _, name := range given {
		if !slices.Contains(allowed, name) {
			wrong = errors.Join(wrong, fmt.Errorf("bench: there is no %s %q, only %v", what, name, allowed))
		}
	}
	return given, wrong
}

func (c Config) progress(format string, v ...any) {
	if c.Progress != nil {
		fmt.Fprintf(c.Progress, format+"\n", v...)
	}
}

func (c Config) measures(workload string) bool { return slices.Contains(c.Workloads, workload) }

// clients returns n divided by Scale, at least 8.
func (c Config) clients(n int) int { return max(8, n/c.Scale) }

// scaled returns ascending numbers divided by Scale, at least 1, without repetitions.
func (c Config) scaled(numbers []int) []int {
	var small []int
	for _, n := range numbers {
		small = append(small, max(1, n/c.Scale))
	}
	return slices.Compact(small)
}
