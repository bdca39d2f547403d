package sim

import (
	"errors"
	"flag"
	"fmt"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/kvslots/kvslots/kvslots/internal/natstest"
)

const (
	mutationsFile = "mutations.txt"
	mutationSeeds = 300 // number of seeds within which each mutation must be detected, or twice as many as listed
)

var mutationsFlag = flag.String("mutations", "", "FROM:TO, the numbers of the first and the last mutation that TestSoakMutations makes; the list begins with 1")

// mutation is a change of one line in a package of the core, and what detects it: the
// sweep, after a number of seeds according to the list; a kept scenario; or a test.
type mutation struct {
	number                   int // from 1, in the order of the list
	name, file, in, old, new string
	seeds, scenario, test    string // one of them is set
}

// TestSoakMutations changes one line of the core at a time, as testdata/mutations.txt says,
// and fails if what detects the change according to the list does not.
func TestSoakMutations(t *testing.T) {
	if os.Getenv("KVSLOTS_SOAK") == "" {
		t.Skip("KVSLOTS_SOAK is not set")
	}
	all := readMutations(t)
	overlay, programs := writeOverlay(t, all), map[string]string{} // by directory
	for _, m := range chosen(t, all) {
		dir := m.dir(t)
		if programs[dir] == "" {
			programs[dir] = buildMutated(t, dir, overlay)
		}
		t.Run(m.name, func(t *testing.T) {
			out, err := m.run(t, programs[dir])
			var failed *exec.ExitError
			switch {
			case errors.As(err, &failed) && m.failure(out) != "":
				t.Logf("detected%s (the list says: by %s)\n%s", seedsOf(out), m.detector(), m.failure(out))
			case err != nil:
				t.Errorf("%v\n%s", err, out)
			default:
				t.Errorf("not detected by %s: %s\n-%s\n+%s", m.detector(), m.file, m.old, m.new)
			}
		})
	}
}

// chosen returns the mutations that -mutations names.
func chosen(t *testing.T, all []mutation) []mutation {
	t.Helper()
	from, to := 1, len(all)
	if *mutationsFlag != "" {
		if _, err := fmt.Sscanf(*mutationsFlag, "%d:%d", &from, &to); err != nil {
			t.Fatalf("-mutations is FROM:TO: %v", err)
		}
	}
	if from < 1 || from > to || to > len(all) {
		t.Fatalf("-mutations: there are %d", len(all))
	}
	return all[from-1 : to]
}

// TestMutationsApply checks that each mutation's line exists exactly once, that the change
// compiles, and that what detects the mutation exists.
func TestMutationsApply(t *testing.T) {
	all := readMutations(t)
	packages := map[string]bool{}
	for _, m := range all {
		packages["../"+filepath.Dir(m.file)] = true
		switch _, err := os.Stat(filepath.Join("testdata", m.scenario+".txt")); {
		case m.seeds != "":
		case m.scenario != "" && err != nil:
			t.Errorf("%s: %v", m.name, err)
		case m.scenario == "" && !hasTest(t, m.dir(t), m.test):
			t.Errorf("%s: no test %q", m.name, m.test)
		}
	}
	args := append([]string{"build", "-overlay=" + writeOverlay(t, all)}, slices.Sorted(maps.Keys(packages))...)
	if out, err := exec.CommandContext(t.Context(), "go", args...).CombinedOutput(); err != nil {
		t.Errorf("%v\n%s", err, out)
	}
}

// detector names what detects the mutation, according to the list.
func (m *mutation) detector() string {
	switch {
	case m.scenario != "":
		return "scenario " + m.scenario
	case m.test != "":
		return m.test
	}
	return m.seeds + " seeds"
}

// pattern returns the -run pattern of the detector.
func (m *mutation) pattern() string {
	switch {
	case m.scenario != "":
		return "^TestScenarios$/^" + m.scenario + ".txt$"
	case m.test != "":
		return "^" + m.test + "$"
	}
	return "^TestSimulation$"
}

// dir returns the directory of the tests: this one, unless the test is beside the changed
// file, or in package peer.
func (m *mutation) dir(t *testing.T) string {
	t.Helper()
	for _, dir := range [2]string{filepath.Join("..", filepath.Dir(m.file)), filepath.Join("..", "peer")} {
		if m.test != "" && hasTest(t, dir, m.test) {
			return dir
		}
	}
	return "."
}

// readMutations reads the list, which consists of blocks separated by empty lines. A
// block has the lines "name", "file", "in", "old", "new", and one of "seeds", "scenario"
// and "test". Paths are relative to kvslots/internal. "in" names a function, and is
// optional.
func readMutations(t *testing.T) (all []mutation) {
	t.Helper()
	text, err := os.ReadFile(filepath.Join("testdata", mutationsFile))
	natstest.Must(t, err)
	for block := range strings.SplitSeq(string(text), "\n\n") {
		var m mutation
		fields := map[string]*string{
			"name": &m.name, "file": &m.file, "in": &m.in, "old": &m.old, "new": &m.new,
			"seeds": &m.seeds, "scenario": &m.scenario, "test": &m.test,
		}
		for line := range strings.Lines(block) {
			key, value, _ := strings.Cut(strings.TrimSpace(line), " ")
			if key == "" || strings.HasPrefix(key, "#") {
				continue
			}
			if fields[key] == nil {
				t.Fatalf("%s: no such field %q", mutationsFile, key)
			}
			*fields[key] = strings.TrimSpace(value)
		}
		if m.name != "" {
			m.number = len(all) + 1
			all = append(all, m)
		}
	}
	return all
}

// run runs what detects the mutation, with it.
func (m *mutation) run(t *testing.T, program string) (string, error) {
	t.Helper()
	args := []string{"-test.run=" + m.pattern(), "-test.v"}
	if m.test != "" {
		args = append(args, "-test.timeout=1m") // with the change it may wait for what never comes
	} else {
		listed, _ := strconv.Atoi(m.seeds)
		args = append(args, "-first=1101", fmt.Sprintf("-seeds=%d", max(mutationSeeds, 2*listed)), "-lines=5", "-shrink=0")
	}
	if m.test != "" && filepath.Base(m.dir(t)) == "rules" {
		args = append(args, "-rapid.nofailfile") // it would fail later runs without the mutation
	}
	cmd := exec.CommandContext(t.Context(), program, args...)
	cmd.Dir = m.dir(t)
	cmd.Env = append(os.Environ(), fmt.Sprintf("%s=%d", mutationVariable, m.number))
	out, err := cmd.CombinedOutput()
	return string(out), err
}

var (
	seedsRun   = regexp.MustCompile(`\d+ seeds, `)
	failedSeed = regexp.MustCompile(`(?m)^.*: seed \d+: .*$`)
	failedTest = regexp.MustCompile(`(?m)^(--- FAIL|panic: test timed out).*$`)
)

// seedsOf returns after how many seeds a sweep has failed.
func seedsOf(out string) string {
	if n := seedsRun.FindString(out); n != "" {
		return " after " + strings.TrimSuffix(n, ", ")
	}
	return ""
}

// failure returns the line that says what has failed, and "" if the detector has not.
func (m *mutation) failure(out string) string {
	failed := failedSeed
	if m.test != "" {
		failed = failedTest
	}
	return strings.TrimSpace(failed.FindString(out))
}
