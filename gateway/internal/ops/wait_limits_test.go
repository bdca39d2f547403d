package ops

import (
	"errors"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/kvslots/kvslots/kvslots/wire"
)

func TestWaits(t *testing.T) {
	const a, b, network, other = "192.0.2.1:1", "192.0.2.2:1", "[2001:db8::1]:1", "[2001:db8::2]:1"
	var w Waits
	w.Limit(WaitLimits{Total: 4, PerIP: 2})
	for _, c := range []struct {
		remote string
		want   error
	}{
		{a, nil}, {network, nil}, {a, nil}, {a, wire.ErrMaxWaitersPerIP}, {other, nil}, {b, wire.ErrMaxWaitersTotal}, {"", wire.ErrMaxWaitersTotal},
	} {
		if got := w.Enter(c.remote); !errors.Is(got, c.want) {
			t.Errorf("%s: %v, want %v", c.remote, got, c.want)
		}
	}
	w.Leave(other)
	if err := w.Enter(""); err != nil {
		t.Errorf("an unknown address: %v", err)
	}
	w.Leave("")
	w.Leave(network)
	w.Leave(a)
	w.Leave(a)
	if total, perIP := w.Refused(); w.open != 0 || len(w.perIP) != 0 || total != 2 || perIP != 1 {
		t.Errorf("%d wait, of %d addresses; refused %d and %d", w.open, len(w.perIP), total, perIP)
	}
}

// However many requests arrive at once, no more than the limit wait.
func TestWaitsAreExact(t *testing.T) {
	const limit = 7
	var w Waits
	w.Limit(WaitLimits{Total: limit, PerIP: limit})
	var inside, entered atomic.Int64
	var all sync.WaitGroup
	for range 50 {
		all.Go(func() {
			for range 200 {
				if w.Enter("192.0.2.1:1") != nil {
					continue
				}
				if n := inside.Add(1); n > limit {
					t.Errorf("%d wait", n)
				}
				entered.Add(1)
				inside.Add(-1)
				w.Leave("192.0.2.1:1")
			}
		})
	}
	all.Wait()
	if entered.Load() == 0 || w.open != 0 || len(w.perIP) != 0 {
		t.Errorf("%d entered, %d wait at the end", entered.Load(), w.open)
	}
}
