package sim

import (
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/kvslots/kvslots/kvslots/internal/natstest"
)

// TestFaultsAreHeld checks that every fault of the list has a test, and that every
// listed test exists.
func TestFaultsAreHeld(t *testing.T) {
	list, err := os.ReadFile(filepath.Join("testdata", "faults.txt"))
	natstest.Must(t, err)
	held := map[string]bool{}
	for line := range strings.Lines(string(list)) {
		fields := strings.Fields(line)
		if len(fields) == 0 || fields[0] == "#" {
			continue
		}
		if len(fields) != 3 {
			t.Fatalf("not a number, a directory and a test: %q", line)
		}
		held[fields[0]] = true
		if !hasTest(t, filepath.Join("..", "..", "..", fields[1]), fields[2]) {
			t.Errorf("%s has no %s", fields[1], fields[2])
		}
	}
	for n := 1; n <= 23; n++ {
		if n != 4 && !held[strconv.Itoa(n)] { // 4 was of calls that followed leases
			t.Errorf("no test holds fault %d", n)
		}
	}
}

// hasTest reports whether a package declares a test.
func hasTest(t *testing.T, dir, name string) bool {
	t.Helper()
	return slices.ContainsFunc(readFiles(t, filepath.Join(dir, "*_test.go")), func(text string) bool {
		return strings.Contains(text, "\nfunc "+name+"(t *testing.T)")
	})
}

// readFiles returns the texts of the files with such a path.
func readFiles(t *testing.T, pattern string) (texts []string) {
	t.Helper()
	files, err := filepath.Glob(pattern)
	natstest.Must(t, err)
	for _, file := range files {
		text, err := os.ReadFile(file)
		natstest.Must(t, err)
		texts = append(texts, string(text))
	}
	return texts
}
