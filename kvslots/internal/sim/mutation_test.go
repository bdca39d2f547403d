package sim

import (
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"testing"
)

const (
	mutationsFile = "mutations.txt"
	mutationSeeds = 300 // number of seeds within which each mutation must be detected, or twice as many as listed
)

// mutation is a change of one line in a package of the core, and what detects it: the
// sweep, after a number of seeds according to the list; a kept scenario; or a test.
type mutation struct {
	name, file, in, old, new string
	seeds, scenario, test    string // one of them is set
}

// TestSoakMutations changes one line at a time, as testdata/mutations.txt says, and
// fails if the simulation does not notice. With `-overlay` the go command compiles the
// changed file instead of the real one.
func TestSoakMutations(t *testing.T) {
	if os.Getenv("KVSLOTS_SOAK") == "" {
		t.Skip("KVSLOTS_SOAK is not set")
	}
	for _, m := range readMutations(t) {
		t.Run(m.name, func(t *testing.T) {
			out, err := m.run(t)
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

// TestMutationsApply checks that each mutation's line exists exactly once, and that what
// detects the mutation exists.
func TestMutationsApply(t *testing.T) {
	for _, m := range readMutations(t) {
		if _, err := m.apply(); err != nil {
			t.Errorf("%s: %v", m.name, err)
		}
		switch _, err := os.Stat(filepath.Join("testdata", m.scenario+".txt")); {
		case m.seeds != "":
		case m.scenario != "" && err != nil:
			t.Errorf("%s: %v", m.name, err)
		case m.scenario == "" && !hasTest(t, m.dir(t), m.test):
			t.Errorf("%s: no test %q", m.name, m.test)
		}
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
	if err != nil {
		t.Fatal(err)
	}
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
			all = append(all, m)
		}
	}
	return all
}

// apply returns the changed file. It ignores indentation.
func (m *mutation) apply() (string, error) {
	text, err := os.ReadFile(filepath.Join("..", m.file))
	if err != nil {
		return "", err
	}
	lines, found, inside := strings.Split(string(text), "\n"), 0, m.in == ""
	for i, line := range lines {
		if m.in != "" && strings.HasPrefix(line, "func ") {
			inside = strings.Contains(line, m.in+"(")
		}
		if trimmed := strings.TrimSpace(line); inside && trimmed == m.old {
			lines[i] = strings.Replace(line, trimmed, m.new, 1)
			found++
		}
	}
	if found != 1 {
		return "", fmt.Errorf("%s has %d lines %q", m.file, found, m.old)
	}
	return strings.Join(lines, "\n"), nil
}

// run runs the simulation with the change.
func (m *mutation) run(t *testing.T) (string, error) {
	t.Helper()
	changed, err := m.apply()
	if err != nil {
		t.Fatal(err)
	}
	original, err := filepath.Abs(filepath.Join("..", m.file))
	if err != nil {
		t.Fatal(err)
	}
	dir := t.TempDir()
	file, overlay := filepath.Join(dir, "changed.go"), filepath.Join(dir, "overlay.json")
	list, err := json.Marshal(map[string]any{"Replace": map[string]string{original: file}})
	if err != nil {
		t.Fatal(err)
	}
	if err := errors.Join(os.WriteFile(file, []byte(changed), 0o600), os.WriteFile(overlay, list, 0o600)); err != nil {
		t.Fatal(err)
	}
	args := []string{"test", "-count=1", "-vet=off", "-timeout=30m", "-overlay=" + overlay, "-run=" + m.pattern(), "-v", "."}
	if m.test == "" {
		listed, _ := strconv.Atoi(m.seeds)
		args = append(args, "-args", "-first=1101", fmt.Sprintf("-seeds=%d", max(mutationSeeds, 2*listed)), "-lines=5", "-shrink=0")
	} else if filepath.Base(m.dir(t)) == "rules" {
		args = append(args, "-rapid.nofailfile") // it would fail later runs without the mutation
	}
	cmd := exec.CommandContext(t.Context(), "go", args...)
	cmd.Dir = m.dir(t)
	out, err := cmd.CombinedOutput()
	return string(out), err
}

var (
	seedsRun   = regexp.MustCompile(`\d+ seeds, `)
	failedSeed = regexp.MustCompile(`(?m)^.*: seed \d+: .*$`)
	failedTest = regexp.MustCompile(`(?m)^--- FAIL: .*$`)
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
