package rules_test

import (
	"testing"
	"time"

	"github.com/kvslots/kvslots/kvslots/internal/entry"
	"github.com/kvslots/kvslots/kvslots/internal/rules"
)

// Promised counts from when this peer sent the last of its messages that the view has
// reached, whatever the timestamps say. It only grows.
func TestPromise(t *testing.T) {
	const s = time.Second
	st, v := newStream(), newView()
	refresh := func(idled, want time.Duration) {
		t.Helper()
		e := client(sessionID(1))
		e.Session.Idle, e.Session.Idled = entry.Span(time.Minute), entry.Span(idled)
		feed(st, v, e)
		if got := time.Duration(v.Session(sessionID(1)).Promised); got != want {
			t.Errorf("promised until %v, want %v", got, want)
		}
	}
	refresh(0, 0) // no message was sent
	v.Passed(rules.Instant(10 * s))
	refresh(0, 70*s)
	st.now, st.skew = time.Hour, time.Hour
	refresh(0, 70*s)
	v.Passed(rules.Instant(20 * s))
	v.Passed(rules.Instant(15 * s))
	refresh(30*s, 70*s)
	refresh(0, 80*s)
	v.Session(sessionID(1)).Promise(rules.Instant(90 * s))
	refresh(0, 90*s)
}
