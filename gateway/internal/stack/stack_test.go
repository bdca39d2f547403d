package stack

import (
	"regexp"
	"strings"
	"testing"
)

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
