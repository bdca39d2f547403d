package rules_test

import (
	"fmt"
	"testing"
	"time"

	"github.com/kvslots/kvslots/kvslots/internal/rules"
)

func TestReleased(t *testing.T) {
	s, v, p := lent(t, 2)
	start := s.instant()
	release := func(owner string) {
		e := marker(rules.SlotKey(p.ID, 0))
		e.Owner = owner
		feed(s, v, e)
	}
	want := func(owner string, after time.Duration, want bool) {
		t.Helper()
		if got := p.ReleasedBy(owner, start.Add(after)); got != want {
			t.Errorf("after %v: released by %s: %v, want %v", after, owner, got, want)
		}
	}
	release("ann")
	release("") // the end of a lease
	want("ann", rules.ReleaseMemory-1, true)
	want("ann", rules.ReleaseMemory, false)
	want("", 0, false)
	want("bob", 0, false)
	s.now = 40 * time.Second
	release("ann") // again
	want("ann", rules.ReleaseMemory, true)
	want("ann", 40*time.Second+rules.ReleaseMemory, false)

	if (*rules.Pool)(nil).ReleasedBy("ann", start) {
		t.Error("a nil pool was released")
	}
	for i := range 64 { // the memory is bounded, and keeps the latest
		release(fmt.Sprint(i))
	}
	want("ann", 41*time.Second, false)
	want("0", 41*time.Second, true)
	want("63", 41*time.Second, true)
}

// A release counts from when its entry was written, even if that arrives late.
func TestReleasedLate(t *testing.T) {
	s, v, p := lent(t, 1)
	e := marker(rules.SlotKey(p.ID, 0))
	e.Owner = "ann"
	v.Apply(s.write(e), 50*time.Second, s.instant())
	if now := s.instant(); !p.ReleasedBy("ann", now.Add(10*time.Second-1)) || p.ReleasedBy("ann", now.Add(10*time.Second)) {
		t.Error("the release is not remembered for a minute from when it was written")
	}
}
