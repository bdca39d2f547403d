package sim

import (
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"
)

var (
	seedFlag   = flag.Uint64("seed", 0, "run this seed alone")
	firstFlag  = flag.Uint64("first", 1101, "the first seed of a sweep; 0: one that the clock draws")
	seedsFlag  = flag.Int("seeds", 0, "how many seeds a sweep has; 0: as many as the test says")
	traceFlag  = flag.Int("trace", 60, "how many of the last lines of a failing run are printed; -1: all")
	surveyFlag = flag.Bool("survey", false, "go on after failures, and print one line for each instead of its trace")
	keepFlag   = flag.String("keep", "", "shrink a failing run and keep it in testdata under this name")
)

// TestSimulation runs many seeds, each with its own mix of faults.
func TestSimulation(t *testing.T) {
	if *seedFlag != 0 {
		runOne(t, Draw(*seedFlag))
		return
	}
	n := 300
	if testing.Short() {
		n = 60
	}
	sweep(t, first(), n, n >= 300)
}

// first is the first seed of a sweep.
func first() uint64 {
	if *firstFlag == 0 {
		return uint64(time.Now().UnixNano()) & 0xffff_ffff
	}
	return *firstFlag
}

// TestSoakSimulation runs very many.
func TestSoakSimulation(t *testing.T) {
	if os.Getenv("KVSLOTS_SOAK") == "" {
		t.Skip("KVSLOTS_SOAK is not set")
	}
	sweep(t, first(), 100_000, true)
}

// sweep runs n seeds from a first one on, and demands that they have met
// everything together.
func sweep(t *testing.T, first uint64, n int, whole bool) {
	t.Helper()
	if *seedsFlag > 0 {
		n = *seedsFlag
	}
	t.Logf("go test ./kvslots/internal/sim -run %s -first %d", t.Name(), first)
	met, virtual, inputs, began, ran := Coverage{}, time.Duration(0), uint64(0), time.Now(), 0
	survey := map[string]int{}
	for seed := first; seed < first+uint64(n) && (*surveyFlag || !t.Failed()); seed++ {
		p := Draw(seed)
		hangs := time.AfterFunc(5*time.Minute, func() { panic(fmt.Sprintf("seed %d does not end", seed)) })
		r := Run(p, Options{})
		hangs.Stop()
		ran++
		virtual += r.Virtual
		inputs += r.Inputs
		met.Add(r.Met)
		switch {
		case r.Failure == nil:
		case *surveyFlag:
			survey[r.Failure.Check]++
			t.Errorf("seed %d (calm: %t): %s", seed, p.Calm(), r.Failure)
		default:
			fails(t, p, r.Failure)
		}
	}
	if *surveyFlag {
		t.Logf("failed checks: %v", survey)
	}
	took := time.Since(began)
	t.Logf("%d seeds, %.1f virtual hours, %d inputs in %v: %.0f seeds/s, %.0f inputs/s",
		ran, virtual.Hours(), inputs, took.Round(time.Millisecond), float64(ran)/took.Seconds(), float64(inputs)/took.Seconds())
	missing := met.Missing(ran)
	if *surveyFlag && len(missing) > 0 {
		t.Logf("never met: %q", missing)
	}
	if whole && !t.Failed() && len(missing) > 0 {
		t.Errorf("the sweep has never met:\n%s", strings.Join(missing, "\n"))
	}
	if testing.Verbose() {
		t.Logf("met:\n%s", met)
	}
}

func runOne(t *testing.T, p Plan) {
	t.Helper()
	if r := Run(p, Options{}); r.Failure != nil {
		fails(t, p, r.Failure)
	}
}

// fails prints a failing run, and keeps it if that is asked for.
func fails(t *testing.T, p Plan, f *Failure) {
	t.Helper()
	if *keepFlag != "" {
		p = Shrink(p, f.Check, 2000)
	}
	r := Run(p, Options{Trace: true, Keep: max(*traceFlag, 0)})
	text := "not the same again: the run is no function of its seed"
	if r.Failure != nil {
		text = r.Failure.String()
	}
	t.Errorf("seed %d: %s\n\n%s\n%s", p.Seed, text, p.String(), r.Trace)
	if *keepFlag != "" {
		keep(t, p, r)
	}
}

// keep saves a scenario with its trace, for TestScenarios.
func keep(t *testing.T, p Plan, r Result) {
	t.Helper()
	var b strings.Builder
	if r.Failure != nil {
		fmt.Fprintf(&b, "# %s\n", r.Failure)
	}
	b.WriteString(p.String())
	for line := range strings.Lines(r.Trace.String()) {
		b.WriteString("# " + line)
	}
	name := filepath.Join("testdata", *keepFlag+".txt")
	if err := os.WriteFile(name, []byte(b.String()+"\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	t.Logf("kept in %s", name)
}

// TestScenarios runs what failed once.
func TestScenarios(t *testing.T) {
	names, err := filepath.Glob("testdata/*.txt")
	if err != nil {
		t.Fatal(err)
	}
	for _, name := range names {
		if base := filepath.Base(name); base == mutationsFile || base == "faults.txt" || base == "open.txt" {
			continue
		}
		t.Run(filepath.Base(name), func(t *testing.T) {
			text, err := os.ReadFile(name)
			if err != nil {
				t.Fatal(err)
			}
			p, err := ParsePlan(string(text))
			if err != nil {
				t.Fatal(err)
			}
			runOne(t, p)
		})
	}
}

// A run is a function of its seed.
func TestSimulationIsDeterministic(t *testing.T) {
	for seed := range uint64(12) {
		a := Run(Draw(seed), Options{Trace: true, Keep: 1})
		b := Run(Draw(seed), Options{Trace: true, Keep: 1})
		if a.Trace.hash != b.Trace.hash || a.Inputs != b.Inputs {
			t.Errorf("seed %d: %d inputs with trace hash %x, then %d with %x", seed, a.Inputs, a.Trace.hash, b.Inputs, b.Trace.hash)
		}
	}
}

func TestPlanReadsBack(t *testing.T) {
	for seed := range uint64(200) {
		p := Draw(seed)
		got, err := ParsePlan(p.String())
		if err != nil || got != p {
			t.Fatalf("seed %d: %v\n%s\nis read as\n%s", seed, err, p.String(), got.String())
		}
	}
}

func TestParsePlanRefuses(t *testing.T) {
	for _, text := range []string{"", "nodes 1", "nodes x", "nodes 1\nreplicas 1\nlength 1m\nfoo 1", "length 1"} {
		if _, err := ParsePlan(text); err == nil {
			t.Errorf("%q is taken for a scenario", text)
		}
	}
}
