package rules_test

import (
	"testing"
	"time"

	"github.com/kvslots/kvslots/kvslots/internal/entry"
	"github.com/kvslots/kvslots/kvslots/internal/rules"
)

// Promised counts from when this peer sent a message that the stream has before the
// session's last refresh, whatever the timestamps say.
func TestPromisedFromWhatWasSent(t *testing.T) {
	const s = time.Second
	type sent struct {
		revision uint64
		at       time.Duration
	}
	for name, c := range map[string]struct {
		sent []sent
		from time.Duration // of the promise; 0: there is none
	}{
		"nothing was sent":              {},
		"something before":              {[]sent{{3, 40 * s}}, 40 * s},
		"the refresh itself":            {[]sent{{3, 40 * s}, {5, 60 * s}}, 60 * s},
		"something after":               {[]sent{{6, 60 * s}}, 0},
		"one before and one after":      {[]sent{{4, 40 * s}, {9, 60 * s}}, 40 * s},
		"answered when it was seen":     {[]sent{{1, 40 * s}}, 40 * s},
		"the last of many before":       {[]sent{{2, 30 * s}, {3, 40 * s}, {4, 50 * s}}, 50 * s},
		"two after, and one seen since": {[]sent{{6, 40 * s}, {9, 60 * s}, {1, 30 * s}}, 30 * s},
	} {
		t.Run(name, func(t *testing.T) {
			st, v := newStream(), rules.New()
			feed(st, v, config(poolID(0), 2, 1))
			for _, m := range c.sent {
				v.Sent(m.revision, rules.Instant(m.at))
			}
			for v.Revision < 4 {
				feed(st, v, config(poolID(0), 2, 1))
			}
			e := client(sessionID(1))
			e.Session.Idle = entry.Span(10 * s)
			feed(st, v, e)
			want := rules.Instant(0)
			if c.from != 0 {
				want = rules.Instant(c.from + 10*s)
			}
			if got := v.Session(sessionID(1)).Promised; got != want {
				t.Errorf("promised until %v, want %v", time.Duration(got), time.Duration(want))
			}
		})
	}
}

// Later messages and refreshes never move Promised back.
func TestPromiseOnlyGrows(t *testing.T) {
	st, v := newStream(), rules.New()
	refresh := func(idled, want time.Duration) {
		t.Helper()
		e := client(sessionID(1))
		e.Session.Idle, e.Session.Idled = entry.Span(time.Minute), entry.Span(idled)
		feed(st, v, e)
		if got := time.Duration(v.Session(sessionID(1)).Promised); got != want {
			t.Errorf("promised until %v, want %v", got, want)
		}
	}
	const s = time.Second
	v.Sent(2, rules.Instant(10*s))
	v.Sent(4, rules.Instant(20*s))
	refresh(0, 0)
	refresh(0, 70*s)
	refresh(0, 70*s)
	refresh(0, 80*s)
	refresh(30*s, 80*s)
	v.Session(sessionID(1)).Promise(rules.Instant(90 * s))
	refresh(0, 90*s)
}
