package ops

import (
	"regexp"
	"strings"
	"testing"

	"github.com/kvslots/kvslots/kvslots/logtest"
)

//go:noinline
func fail(id [16]byte) (lines string) {
	defer func() {
		if recover() != nil {
			lines = stackLines()
		}
	}()
	panic(id[0])
}

func TestStackLines(t *testing.T) {
	lines := fail([16]byte{0xab, 0xcd, 0xef})
	if !strings.Contains(lines, "ops.fail ") || !strings.Contains(lines, "panic_test.go:") {
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
