package sim

import (
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
)

const (
	mutationsFile = "mutations.txt"
	mutationSeeds = 300 // number of seeds within which each mutation must be detected
)

// mutation is a change of one line in package rules or peer.
type mutation struct {
	name, file, in, old, new string
	seeds                    string // number of seeds that it took, according to the list
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
			case errors.As(err, &failed) && firstFailure(out) != "":
				t.Logf("found after %s seeds (the list says %s)\n%s", seedsOf(out), m.seeds, firstFailure(out))
			case err != nil:
				t.Errorf("%v\n%s", err, out)
			default:
				t.Errorf("not found in %d seeds: %s\n-%s\n+%s", mutationSeeds, m.file, m.old, m.new)
			}
		})
	}
}

// TestMutationsApply checks that each mutation's line exists exactly once.
func TestMutationsApply(t *testing.T) {
	for _, m := range readMutations(t) {
		if _, err := m.apply(); err != nil {
			t.Errorf("%s: %v", m.name, err)
		}
	}
}

// readMutations reads the list, which consists of blocks separated by empty lines. A
// block has the lines "name", "file", "in", "old", "new" and "seeds". Paths are
// relative to kvslots/internal. "in" names a function, and is optional.
func readMutations(t *testing.T) (all []mutation) {
	t.Helper()
	text, err := os.ReadFile(filepath.Join("testdata", mutationsFile))
	if err != nil {
		t.Fatal(err)
	}
	for block := range strings.SplitSeq(string(text), "\n\n") {
		var m mutation
		fields := map[string]*string{"name": &m.name, "file": &m.file, "in": &m.in, "old": &m.old, "new": &m.new, "seeds": &m.seeds}
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
	cmd := exec.CommandContext(t.Context(), "go", "test", "-count=1", "-timeout=30m", "-overlay="+overlay, "-run=^(TestSimulation|TestScenarios)$",
		".", "-v", "-args", "-first=1101", fmt.Sprintf("-seeds=%d", mutationSeeds), "-trace=5") // go test has a -trace of its own
	out, err := cmd.CombinedOutput()
	return string(out), err
}

var (
	seedsRun   = regexp.MustCompile(`(\d+) seeds, `)
	failedSeed = regexp.MustCompile(`: seed \d+: `)
)

func seedsOf(out string) string {
	if m := seedsRun.FindStringSubmatch(out); m != nil {
		return m[1]
	}
	return "?"
}

func firstFailure(out string) string {
	for line := range strings.Lines(out) {
		if failedSeed.MatchString(line) {
			return strings.TrimSpace(line)
		}
	}
	return ""
}
