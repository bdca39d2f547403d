package sim

import (
	"regexp"
	"strings"
	"testing"
	"time"
)

// A trace says when a view ceases to be live, what is checked then, and where the view
// differs from the stream. A filter leaves out only lines about other entries and calls.
func TestTrace(t *testing.T) {
	s := newScript(t, 1)
	s.trace = newTrace(Options{})
	other, pool := s.newPool(2), s.newPool(1)
	s.trace.about = regexp.MustCompile("slot " + short(pool))
	s.must(0, s.borrow(pool, 5*time.Minute, 0))
	s.must(0, s.borrow(other, 5*time.Minute, 0))
	s.loseTailNow(1)
	s.nodes[0].traceDifference()
	s.nodes[0].link.reconnect()
	s.until("the view is built anew", 20*time.Second, func() bool { return s.counters(0).Rebuilds > 0 && s.status(0) == nil })
	text := s.trace.String()
	for _, want := range []string{
		"writes #5 slot " + short(pool), "which checks its view from", "has a view that is catching up at",
		"differs from the stream, first at slot " + short(other) + "/0: the stream has nothing, and the view 1790003600000005", "has a view that is live at",
	} {
		if !strings.Contains(text, want) {
			t.Errorf("the trace lacks %q:\n%s", want, text)
		}
	}
	if strings.Contains(text, "slot "+short(other)+"/0 lease") {
		t.Errorf("the trace has lines about another pool:\n%s", text)
	}
}
