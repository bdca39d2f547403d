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
		{"usual", 30 * s, 0, 2 * s, 27250 * time.Millisecond, 29250 * time.Millisecond, 1500 * time.Millisecond},
		{"long", 3600 * s, 0, 10 * s, 3588 * s, 3598 * s, 180 * s},
		{"short", 3 * s, 0, s, 1750 * time.Millisecond, 2750 * time.Millisecond, s},
		{"shortest", s, 0, s / 4, 500 * time.Millisecond, 750 * time.Millisecond, s / 3},
		{"after a wait that is known", 30 * s, 5 * s, 10 * s, 24250 * time.Millisecond, 34250 * time.Millisecond, 6500 * time.Millisecond},
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

// With the default settings of run, the command survives 25 s without a server, and retries
// of the renewal do not exceed that.
func TestSurvives(t *testing.T) {
	for ttl, least := range map[time.Duration]time.Duration{
		30 * time.Second: 25 * time.Second, time.Minute: 50 * time.Second, 10 * time.Minute: 9 * time.Minute, 3 * time.Second: 500 * time.Millisecond,
	} {
		if got := Survives(ttl, DefaultKillAfter(ttl)) - retryAfter(ttl); got < least {
			t.Errorf("a ttl of %s survives %s", ttl, got)
		}
	}
}
