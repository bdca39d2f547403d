package rules_test

import (
	"testing"

	"github.com/kvslots/kvslots/kvslots/internal/rules"
)

// A view that is far behind skips more entries than Gaps keeps apart. It still knows of
// each that it was skipped, until a barrier above has been reached.
func TestGapsOfViewFarBehind(t *testing.T) {
	const highest = 5000
	var g rules.Gaps
	for sequence := uint64(2); sequence <= highest; sequence += 2 {
		g.Skip(sequence, sequence)
	}
	g.Explain(highest)
	g.Reached(highest / 2)
	if g.Exact() {
		t.Error("exact, although entries were skipped above the barrier")
	}
	g.Reached(highest)
	if !g.Exact() {
		t.Error("not exact, although a barrier above every skipped entry was reached")
	}
	for sequence := uint64(2); sequence < highest; sequence += 2 {
		if !g.Unnamed(sequence, sequence) {
			t.Fatalf("%d was skipped, and counts as named", sequence)
		}
	}
}
