package stack

import (
	"os"
	"regexp"
	"strings"
	"testing"

	"github.com/kvslots/kvslots/kvslots/logtest"
)

func TestMain(m *testing.M) { os.Exit(logtest.NoSecrets(m).Run()) }

//go:noinline
func fail(id [16]byte) (lines string) {
	defer func() {
		if recover() != nil {
			lines = Lines()
		}
	}()
	panic(id[0])
}

func TestLines(t *testing.T) {
	lines := fail([16]byte{0xab, 0xcd, 0xef})
	if !strings.Contains(lines, "stack.fail ") || !strings.Contains(lines, "stack_test.go:") {
		t.Errorf("the function is missing:\n%s", lines)
	}
	for line := range strings.Lines(lines) {
		if !regexp.MustCompile(`^\S+ \S+\.(go|s):\d+\n$`).MatchString(line) {
			t.Errorf("line %q", line)
		}
	}
}

// A panic is logged without its text, which may contain parts of a request.
func TestRecover(t *testing.T) {
	var log logtest.Log
	func() {
		defer Recover(log.Logger())
		panic("of 9f1c2e7a-5b3d-4c8e-a1f0-6d2b9c4e7a01")
	}()
	if got := log.String(); !strings.HasPrefix(got, `{"level":"error","message":"task panicked","panic":"string","stack":"`) {
		t.Errorf("logged %s", got)
	}
}
