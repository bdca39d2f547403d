package underlease

import (
	"testing"
	"time"
)

func TestLease(t *testing.T) {
	const s = time.Second
	for _, c := range []struct {
		name                string
		ttl, waited, kill   time.Duration
		term, last, renewal time.Duration // from when it was asked for
	}{
		{"usual", 30 * s, 0, 10 * s, 18 * s, 28 * s, 10 * s},
		{"long", 3600 * s, 0, 10 * s, 3588 * s, 3598 * s, 1200 * s},
		{"short", 3 * s, 0, s, 1700 * time.Millisecond, 2700 * time.Millisecond, s},
		{"shortest", s, 0, s / 4, 500 * time.Millisecond, 750 * time.Millisecond, s / 3},
		{"after a wait that is known", 30 * s, 5 * s, 10 * s, 23 * s, 33 * s, 15 * s},
	} {
		t.Run(c.name, func(t *testing.T) {
			const sent = 1000 * s
			l := Lease{Began: sent + c.waited, TTL: c.ttl}
			if got := l.termAt(c.kill) - sent; got != c.term {
				t.Errorf("SIGTERM after %s, want %s", got, c.term)
			}
			if got := l.killAt() - sent; got != c.last {
				t.Errorf("SIGKILL after %s, want %s", got, c.last)
			}
			if got := l.renewAt() - sent; got != c.renewal {
				t.Errorf("renewed after %s, want %s", got, c.renewal)
			}
			half := sent + c.waited + (c.term-c.waited)/2
			if !l.fresh(half, c.kill) || l.fresh(half+1, c.kill) {
				t.Errorf("not fresh up to %s", half-sent)
			}
			if l.fresh(sent, c.ttl) {
				t.Error("fresh without any time for the command")
			}
		})
	}
}

func TestDefaultKillAfter(t *testing.T) {
	for _, ttl := range []time.Duration{time.Second, 2 * time.Second, 30 * time.Second, time.Hour} {
		if DefaultKillAfter(ttl)+Margin(ttl) >= ttl {
			t.Errorf("a ttl of %s leaves nothing to the command", ttl)
		}
	}
}
