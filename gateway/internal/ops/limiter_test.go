package ops

import (
	"sync"
	"sync/atomic"
	"testing"
)

func TestLimiter(t *testing.T) {
	const a, b, c, unknown = "192.0.2.1", "192.0.2.2", "192.0.2.3", ""
	var w Limiter[string]
	w.Limit(Limits{Total: 4, PerIP: 2})
	for _, step := range []struct {
		client string
		want   Verdict
	}{
		{a, Within}, {b, Within}, {a, Within}, {a, BeyondPerIP}, {b, Within}, {c, BeyondTotal}, {unknown, BeyondTotal},
	} {
		if got := w.Enter(step.client); got != step.want {
			t.Errorf("%s: %v, want %v", step.client, got, step.want)
		}
	}
	w.Leave(b)
	if got := w.Enter(unknown); got != Within {
		t.Errorf("an unknown address: %v", got)
	}
	w.Leave(unknown)
	w.Leave(b)
	w.Leave(a)
	w.Leave(a)
	if total, perIP := w.Refused.Load(), w.RefusedPerIP.Load(); w.open != 0 || len(w.of) != 0 || total != 2 || perIP != 1 {
		t.Errorf("%d are open, of %d clients; refused %d and %d", w.open, len(w.of), total, perIP)
	}
}

// However many requests arrive at once, no more than the limit enter.
func TestLimiterIsExact(t *testing.T) {
	const limit = 7
	var w Limiter[string]
	w.Limit(Limits{Total: limit, PerIP: limit})
	var inside, entered atomic.Int64
	var all sync.WaitGroup
	for range 50 {
		all.Go(func() {
			for range 200 {
				if w.Enter("192.0.2.1") != Within {
					continue
				}
				if n := inside.Add(1); n > limit {
					t.Errorf("%d are open", n)
				}
				entered.Add(1)
				inside.Add(-1)
				w.Leave("192.0.2.1")
			}
		})
	}
	all.Wait()
	if entered.Load() == 0 || w.open != 0 || len(w.of) != 0 {
		t.Errorf("%d entered, %d are open at the end", entered.Load(), w.open)
	}
}
