package bench

import (
	"errors"
	"fmt"
	"io"
	"slices"
	"time"
)

// Config says what Run measures.
type Config struct {
	// Server is the URL of a gateway to measure, http://host:port, with Token as
	// its bearer token if it asks for one. It is reached by the doors http and v1.
	// "" means gateways of our own, started for the run.
	Server string
	Token  string

	// Workloads, Doors and Syncs are what is measured; empty means all. With
	// Server, Syncs does not matter.
	Workloads, Doors, Syncs []string

	// Duration is how long each repetition of a case is measured, 10 ms or more,
	// after a warm-up of a fifth of that; 0 means 400 ms. Repetitions is how many
	// there are, 1 … 100; 0 means 3.
	Duration    time.Duration
	Repetitions int

	// Clients are the numbers of operations in flight of the workload pairs,
	// each 1 … 4096; empty means 1, 8, 64 and 512. Scale is what the other
	// workloads' numbers (clients, pools, waiters, slots) are divided by, for a
	// short look; 0 means 1. With another Scale than 1 no target is judged that
	// depends on them.
	Clients []int
	Scale   int

	// Rate is the number of arrivals a second of the workload arrivals; 0 means
	// 1,000.
	Rate float64

	// Limits and Peers are measured beside the workload pairs. Only a build with the
	// tag peers can measure Peers.
	Limits, Peers bool

	// Dir is where servers keep their data during the run; "" means the
	// directory for temporary files. It should be on the disk that is used in
	// production.
	Dir string

	// Holder is the command that runs HoldConnections; empty means that
	// connections are held in this process, whose memory then includes them.
	Holder []string

	// Progress takes a line for each repetition; nil means none.
	Progress io.Writer
}

// Defaults of Config.
const (
	DefaultDuration    = 400 * time.Millisecond
	DefaultRepetitions = 3
	DefaultRate        = 1000
)

var (
	syncNames      = []string{"always", "interval"}
	defaultClients = []int{1, 8, 64, 512}
)

// SyncNames are the names that Config.Syncs may have.
func SyncNames() []string { return slices.Clone(syncNames) }

func (c Config) withDefaults() (Config, error) {
	if c.Duration == 0 {
		c.Duration = DefaultDuration
	}
	if c.Repetitions == 0 {
		c.Repetitions = DefaultRepetitions
	}
	if c.Rate == 0 {
		c.Rate = DefaultRate
	}
	if c.Scale == 0 {
		c.Scale = 1
	}
	if len(c.Clients) == 0 {
		c.Clients = defaultClients
	}
	var wrong error
	c.Workloads, wrong = oneOf("workload", c.Workloads, c.defaultWorkloads(), WorkloadNames(), wrong)
	c.Doors, wrong = oneOf("door", c.Doors, doorNames, doorNames, wrong)
	c.Syncs, wrong = oneOf("sync", c.Syncs, syncNames, syncNames, wrong)
	if c.Peers {
		wrong = errors.Join(wrong, errNoPeers)
	}
	switch {
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

// defaultWorkloads spares a server that is in use those that leave very many
// markers in its bucket.
func (c Config) defaultWorkloads() []string {
	if c.Server == "" {
		return WorkloadNames()
	}
	return slices.DeleteFunc(WorkloadNames(), func(name string) bool {
		return name == manyPools{}.Name() || name == manyWaiters{}.Name()
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

// clients is the number of a workload's clients divided by Scale, at least 8.
func (c Config) clients(n int) int { return max(8, n/c.Scale) }

// scaled are the numbers divided by Scale, at least 1, each once. They ascend.
func (c Config) scaled(numbers []int) []int {
	var small []int
	for _, n := range numbers {
		small = append(small, max(1, n/c.Scale))
	}
	return slices.Compact(small)
}
