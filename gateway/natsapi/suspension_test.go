package natsapi

import (
	"testing"
	"time"
)

// suspension doubts requests for a while after the process has not run.
func TestSuspension(t *testing.T) {
	now := time.Unix(1_800_000_000, 0)
	a := newSuspension(func() time.Time { return now })
	for _, c := range []struct {
		what   string
		pass   time.Duration
		beat   bool // at the end of each suspendedAfter that passes
		doubts bool
	}{
		{"runs", beatEvery, true, false},
		{"late beats", 10 * suspendedAfter, true, false},
		{"suspended, a request comes before the beat", suspendedAfter + 1, false, true},
		{"the beat", 0, true, true},
		{"soon after", doubtFor - 1, true, true},
		{"a while after", 1, true, false},
		{"suspended for an hour", time.Hour, false, true},
		{"soon after that", suspendedAfter, true, true},
		{"the clock was set back", -time.Minute, true, false},
	} {
		for ; c.beat && c.pass > suspendedAfter; c.pass -= suspendedAfter {
			now = now.Add(suspendedAfter)
			a.beat()
		}
		now = now.Add(c.pass)
		if c.beat {
			a.beat()
		}
		if got := a.lately(); got != c.doubts {
			t.Errorf("%s: %t, want %t", c.what, got, c.doubts)
		}
	}
}
