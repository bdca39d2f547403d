package peer_test

import (
	"bufio"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"testing"
)

// The work of an operation is the number of statements of packages peer and rules that it
// executes. A test binary with counters (go test -cover) counts them.

const (
	workCountEnv = "KVSLOTS_COUNT_WORK" // set in a process that counts: among how many, and how many runs
	workRuns     = 20                   // how often the operation is run
	mostWork     = 1.5                  // how many times as many statements it may execute among many
)

// countsWork prepares and runs an operation if this process is to count statements. It
// returns false in the usual process.
func countsWork(t *testing.T, prepare func(h *harness, n int) func()) bool {
	t.Helper()
	var n, runs int
	if _, err := fmt.Sscanf(os.Getenv(workCountEnv), "%d %d", &n, &runs); err != nil {
		return false
	}
	operation := prepare(newHarness(t), n)
	operation() // the first one may do what is left of the preparation
	for range runs {
		operation()
	}
	return true
}

// compareWork fails the test if its operation executes more statements among many than
// among few.
func compareWork(t *testing.T, few, many int) {
	t.Helper()
	if testing.Short() {
		return
	}
	binary, err := countingBinary()
	if err != nil {
		t.Fatal(err)
	}
	work := func(n int) uint64 { return statements(t, binary, n, workRuns) - statements(t, binary, n, 0) }
	small, large := work(few), work(many)
	t.Logf("%d statements among %d, %d among %d", small, few, large, many)
	if float64(large) > mostWork*float64(small) {
		t.Errorf("%d statements among %d, but %d among %d", small, few, large, many)
	}
}

// statements runs the calling test in a process that counts, and returns the number of
// statements that it has executed.
func statements(t *testing.T, binary string, n, runs int) (sum uint64) {
	t.Helper()
	name := filepath.Join(t.TempDir(), "profile")
	cmd := exec.CommandContext(t.Context(), binary, "-test.run=^"+t.Name()+"$", "-test.coverprofile="+name)
	cmd.Env = append(os.Environ(), fmt.Sprintf("%s=%d %d", workCountEnv, n, runs))
	if out, err := cmd.CombinedOutput(); err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	profile, err := os.Open(name)
	if err != nil {
		t.Fatal(err)
	}
	defer profile.Close()
	for lines := bufio.NewScanner(profile); lines.Scan(); {
		// A line has a block, the number of its statements, and how often it was executed.
		fields := strings.Fields(lines.Text())
		if len(fields) != 3 {
			continue // the mode
		}
		length, err1 := strconv.ParseUint(fields[1], 10, 64)
		times, err2 := strconv.ParseUint(fields[2], 10, 64)
		if err1 != nil || err2 != nil {
			t.Fatalf("%q", lines.Text())
		}
		sum += length * times
	}
	if sum == 0 {
		t.Fatal("nothing was counted")
	}
	return sum
}

// countingDir is where countingBinary builds. TestMain removes it.
var countingDir string

// countingBinary builds the test binary with counters, once.
var countingBinary = sync.OnceValues(func() (string, error) {
	dir, err := os.MkdirTemp("", "kvslots-work")
	if err != nil {
		return "", err
	}
	countingDir = dir
	binary := filepath.Join(dir, "peer.test")
	cmd := exec.Command("go", "test", "-c", "-o", binary, "-covermode=count", "-coverpkg=.,../rules", ".")
	if out, err := cmd.CombinedOutput(); err != nil {
		return "", fmt.Errorf("%w\n%s", err, out)
	}
	return binary, nil
})

func TestMain(m *testing.M) {
	code := m.Run()
	if countingDir != "" {
		os.RemoveAll(countingDir)
	}
	os.Exit(code)
}
