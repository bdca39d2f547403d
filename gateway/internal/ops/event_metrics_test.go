package ops

import (
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/kvslots/kvslots/kvslots"
	"github.com/kvslots/kvslots/kvslots/kvslotstest"
)

// A borrow that keeps its place, since its client asks again, has not timed out, and one that leaves the line is not refused.
func TestTimeouts(t *testing.T) {
	l := NewLending()
	events := l.Events(APILibrary)
	for _, c := range []struct {
		wait      time.Duration
		key       string
		uncounted bool
		paused    bool
	}{
		{time.Second, "", false, false}, {time.Hour, "", false, false}, {time.Minute, "a", false, false}, {0, "a", false, false}, {0, "", false, false},
		{time.Second, "a", true, false}, {0, "a", true, false}, {time.Minute + 1, "a", false, false}, {time.Minute, "a", false, true},
	} {
		call := &Call{Arrived: time.Now()}
		call.Wait, call.RequestKey, call.Uncounted, call.UntilPaused = c.wait, c.key, c.uncounted, true
		events.count(call, &kvslots.TakenError{Err: kvslots.ErrNoSlot, Paused: c.paused})
	}
	all := prometheus.NewRegistry()
	all.MustRegister(l)
	families, err := all.Gather()
	kvslotstest.Must(t, err)
	counted := map[string]float64{}
	for _, family := range families {
		for _, metric := range family.GetMetric() {
			counted[family.GetName()] += metric.GetCounter().GetValue()
		}
	}
	if counted["kvslots_timeouts_total"] != 3 || counted["kvslots_refusals_total"] != 2 {
		t.Errorf("%v", counted)
	}
}
