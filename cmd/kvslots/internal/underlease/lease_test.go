package underlease

import (
	"testing"
	"time"

	"github.com/kvslots/kvslots/kvslots/clock"
)

// fakeLease is a lease that ends by itself.
type fakeLease struct {
	ttl     time.Duration
	ends    time.Duration // by package clock
	done    chan struct{}
	trouble error
}

func (l fakeLease) TTL() time.Duration { return l.ttl }

func (l fakeLease) Left() time.Duration { return l.ends - clock.Now() }

func (l fakeLease) Done() <-chan struct{} { return l.done }

func (l fakeLease) Err() error { return l.trouble }

func (l fakeLease) Trouble() error { return l.trouble }

func TestFresh(t *testing.T) {
	const s = time.Second
	for _, c := range []struct {
		name            string
		ttl, kill, left time.Duration
		fresh           bool
	}{
		{"new", 30 * s, 2 * s, 30 * s, true},
		{"half of the command's time is left", 30 * s, 2 * s, 17 * s, true},
		{"less than half", 30 * s, 2 * s, 15 * s, false},
		{"no time for the command", 30 * s, 30 * s, 30 * s, false},
	} {
		if got := fresh(fakeLease{ttl: c.ttl, ends: clock.Now() + c.left}, c.kill); got != c.fresh {
			t.Errorf("%s: %t", c.name, got)
		}
	}
}

func TestDefaultKillAfter(t *testing.T) {
	for _, ttl := range []time.Duration{time.Second, 2 * time.Second, 30 * time.Second, time.Hour} {
		if DefaultKillAfter(ttl)+Margin(ttl) >= ttl {
			t.Errorf("a ttl of %s leaves nothing to the command", ttl)
		}
	}
}
