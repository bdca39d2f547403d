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
	}{
		{time.Second, "", false}, {time.Hour, "", false}, {time.Minute, "a", false}, {0, "a", false}, {0, "", false},
		{time.Second, "a", true}, {0, "a", true}, {time.Minute + 1, "a", false},
	} {
		call := &Call{Arrived: time.Now()}
		call.Wait, call.RequestKey, call.Uncounted = c.wait, c.key, c.uncounted
		events.count(call, &kvslots.TakenError{Err: kvslots.ErrNoSlot})
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
