package sim

import (
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/kvslots/kvslots/kvslots/internal/natstest"
)

var (
	seedFlag   = flag.Uint64("seed", 0, "run this seed alone")
	firstFlag  = flag.Uint64("first", 0, "the first seed of a sweep; 0: one that is drawn from the commit")
	seedsFlag  = flag.Int("seeds", 0, "how many seeds a sweep has; 0: as many as the test says")
	linesFlag  = flag.Int("lines", 60, "how many of the last lines of a failing run are printed; -1: all")
	aboutFlag  = flag.String("about", "", "a regular expression: of the lines about entries and calls, only those that match are printed, such as \"slot 6c6f6f/3|lease f8ef66\"")
	surveyFlag = flag.Bool("survey", false, "go on after failures, and print one line for each instead of its trace")
	shrinkFlag = flag.Duration("shrink", 10*time.Second, "for how long to look for a smaller plan that fails in the same way; 0: not at all")
	keepFlag   = flag.String("keep", "", "keep the smallest plan of a failing run in testdata under this name")
)

// TestSimulation runs seeds that differ from commit to commit, or those that -first and
// -seeds name, each with its own mix of faults.
func TestSimulation(t *testing.T) {
	if *seedFlag != 0 {
		runOne(t, Draw(*seedFlag))
		return
	}
	sweep(t, firstSeed(t), seeds(100), false, *surveyFlag)
}

// TestFixedSweep runs the same seeds at each commit. Together they must exercise
// everything that missing demands.
func TestFixedSweep(t *testing.T) {
	n := 300
	if testing.Short() {
		n = 40
	}
	sweep(t, 1101, n, n == 300, *surveyFlag)
}

func runOne(t *testing.T, p Plan) {
	t.Helper()
	if r := Run(p, Options{}); r.Failure != nil {
		fails(t, p, r.Failure)
	}
}

// fails prints a failing run, or that of a smaller plan which fails in the same way. It
// keeps the plan if -keep asks for that.
func fails(t *testing.T, p Plan, f *Failure) {
	t.Helper()
	t.Errorf("seed %d: %s", p.Seed, f)
	original := p
	if *shrinkFlag > 0 {
		p = shrink(p, f.Check, time.Now().Add(*shrinkFlag))
	}
	var about *regexp.Regexp
	if *aboutFlag != "" {
		about = regexp.MustCompile(*aboutFlag)
	}
	r := Run(p, Options{Trace: true, KeepLines: max(*linesFlag, 0), About: about})
	switch {
	case r.Failure == nil:
		t.Error("not the same again: the run is no function of its plan")
	case p != original:
		t.Logf("a smaller plan that fails in the same way: %s", r.Failure)
	}
	t.Logf("\n%s\n%s", p.String(), r.Trace)
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
	natstest.Must(t, os.WriteFile(name, []byte(b.String()+"\n"), 0o600))
	t.Logf("kept in %s", name)
}

// TestScenarios runs scenarios that failed once.
func TestScenarios(t *testing.T) {
	names, err := filepath.Glob("testdata/*.txt")
	natstest.Must(t, err)
	for _, name := range names {
		if base := filepath.Base(name); base == mutationsFile || base == "faults.txt" || base == "open.txt" {
			continue
		}
		t.Run(filepath.Base(name), func(t *testing.T) {
			text, err := os.ReadFile(name)
			natstest.Must(t, err)
			p, err := ParsePlan(string(text))
			natstest.Must(t, err)
			runOne(t, p)
		})
	}
}

// A seed determines its run, whatever else runs at the same time.
func TestSimulationIsDeterministic(t *testing.T) {
	for seed := range uint64(12) {
		other := make(chan Result)
		go func() { other <- Run(Draw(seed), Options{Trace: true, KeepLines: 1}) }()
		a := Run(Draw(seed), Options{Trace: true, KeepLines: 1})
		b := <-other
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
