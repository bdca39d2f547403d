package sim

import (
	"fmt"
	"iter"
	"os"
	"os/exec"
	"runtime"
	"runtime/debug"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/kvslots/kvslots/kvslots/internal/natstest"
)

// TestMain reduces garbage collection: a run allocates much and keeps little (a sweep takes
// 340 MB so).
func TestMain(m *testing.M) {
	if os.Getenv("GOGC") == "" {
		debug.SetGCPercent(2400)
	}
	m.Run()
}

// TestSoakSimulation runs very many seeds, and lists all that fail.
func TestSoakSimulation(t *testing.T) {
	if os.Getenv("KVSLOTS_SOAK") == "" {
		t.Skip("KVSLOTS_SOAK is not set")
	}
	sweep(t, firstSeed(t), seeds(100_000), *firstFlag == 0 && *seedsFlag == 0, true)
}

// firstSeed returns the first seed of a sweep: -first, or one that is drawn from the
// commit, so that each commit runs others. Without git it is 1.
func firstSeed(t *testing.T) uint64 {
	t.Helper()
	if *firstFlag != 0 {
		return *firstFlag
	}
	commit, err := exec.CommandContext(t.Context(), "git", "rev-parse", "--short=8", "HEAD").Output()
	if err != nil {
		return 1
	}
	first, err := strconv.ParseUint(strings.TrimSpace(string(commit))[:8], 16, 32)
	natstest.Must(t, err)
	return max(first, 1)
}

// seeds returns the number of seeds of a sweep: -seeds, or n.
func seeds(n int) int {
	switch {
	case *seedsFlag > 0:
		return *seedsFlag
	case testing.Short():
		return min(n, 20)
	}
	return n
}

// progressEvery is the number of seeds after which a sweep logs its progress.
const progressEvery = 1000

// outcome is the run of a seed. done is closed when result is set.
type outcome struct {
	plan   Plan
	result Result
	done   chan struct{}
}

func (o *outcome) run() {
	hangs := time.AfterFunc(5*time.Minute, func() { panic(fmt.Sprintf("seed %d does not end", o.plan.Seed)) })
	o.result = Run(o.plan, Options{})
	hangs.Stop()
	close(o.done)
}

// runs runs n seeds on all processors, and yields their results in the order of the
// seeds.
func runs(first uint64, n int) iter.Seq2[Plan, Result] {
	return func(yield func(Plan, Result) bool) {
		workers := runtime.GOMAXPROCS(0)
		todo, order := make(chan *outcome), make(chan *outcome, 32*workers)
		var stopped sync.WaitGroup
		stop := make(chan struct{})
		defer stopped.Wait()
		defer close(stop)
		for range workers {
			stopped.Go(func() {
				for o := range todo {
					o.run()
				}
			})
		}
		stopped.Go(func() {
			defer close(todo)
			defer close(order)
			for seed := first; seed < first+uint64(n); seed++ {
				o := &outcome{plan: Draw(seed), done: make(chan struct{})}
				select {
				case <-stop:
					return
				case order <- o:
				}
				todo <- o
			}
		})
		for o := range order {
			if <-o.done; !yield(o.plan, o.result) {
				return
			}
		}
	}
}

// tally sums up the runs of a sweep.
type tally struct {
	seeds    int
	inputs   uint64
	virtual  time.Duration
	met      Coverage
	failing  []uint64       // seeds
	failures map[string]int // by check
	began    time.Time
}

func (y *tally) add(p Plan, r Result) {
	y.seeds++
	y.virtual += r.Virtual
	y.inputs += r.Inputs
	y.met.merge(r.Met)
	if r.Failure != nil {
		y.failing = append(y.failing, p.Seed)
		y.failures[r.Failure.Check]++
	}
}

func (y *tally) String() string {
	took := time.Since(y.began)
	return fmt.Sprintf("%d seeds, %.1f virtual hours, %d inputs in %v: %.0f seeds/s, %.0f inputs/s", y.seeds, y.virtual.Hours(), y.inputs,
		took.Round(time.Millisecond), float64(y.seeds)/took.Seconds(), float64(y.inputs)/took.Seconds())
}

// sweep runs n seeds. If whole is true, together they must exercise everything that
// missing demands. A survey goes on after failures, and prints one line for each.
func sweep(t *testing.T, first uint64, n int, whole, survey bool) {
	t.Helper()
	t.Logf("go test ./kvslots/internal/sim -run TestSimulation -first %d -seeds %d", first, n)
	y := tally{met: Coverage{}, failures: map[string]int{}, began: time.Now()}
	for p, r := range runs(first, n) {
		if y.add(p, r); r.Failure != nil && !survey {
			fails(t, p, r.Failure)
			break
		} else if r.Failure != nil {
			t.Errorf("seed %d (without faults: %t): %s", p.Seed, p.FaultFree(), r.Failure)
		}
		if y.seeds%progressEvery == 0 && y.seeds < n {
			t.Logf("%s; %d failed", &y, len(y.failing))
		}
		if deadline, ok := t.Deadline(); ok && y.seeds < n && time.Until(deadline) < time.Minute {
			t.Errorf("-timeout leaves no time for the other %d seeds", n-y.seeds)
			break
		}
	}
	t.Log(&y)
	if survey && len(y.failing) > 0 {
		t.Logf("failing seeds: %v\nfailed checks: %v", y.failing, y.failures)
	}
	missing := y.met.missing(y.seeds)
	switch {
	case len(missing) == 0:
	case whole && !t.Failed():
		t.Errorf("the sweep has never met:\n%s", strings.Join(missing, "\n"))
	case !t.Failed() || survey:
		t.Logf("never met: %q", missing)
	}
	if unlisted := y.met.unlisted(); len(unlisted) > 0 {
		t.Errorf("answers_test.go does not list:\n%s", strings.Join(unlisted, "\n"))
	}
	if testing.Verbose() {
		t.Logf("met:\n%s", y.met)
	}
}
