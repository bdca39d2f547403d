package ops

import (
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/kvslots/kvslots/kvslots"
	"github.com/kvslots/kvslots/kvslots/kvslotstest"
)

// A borrow that keeps its place, since its client asks again, has not timed out.
func TestTimeouts(t *testing.T) {
	l := NewLending()
	events := l.Events(APILibrary)
	for _, c := range []struct {
		wait time.Duration
		key  string
	}{
		{time.Second, ""}, {time.Hour, ""}, {time.Second, "a"}, {time.Minute, "a"}, {0, "a"}, {0, ""},
	} {
		call := &Call{}
		call.Wait, call.RequestKey = c.wait, c.key
		events.count(call, kvslots.ErrNoSlot)
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
