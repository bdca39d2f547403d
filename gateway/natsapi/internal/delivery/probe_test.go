package delivery

import "testing"

func TestTraced(t *testing.T) {
	for trace, want := range map[string]Outcome{
		`{"events":[{"type":"in"}]}`:                                       Unheard,
		`{"events":[{"type":"in"},{"type":"eg"}]}`:                         Heard,
		`{"events":[{"type":"in"},{"type":"si"}]}`:                         Heard,
		`{"events":[{"type":"in","error":"x"}]}`:                           Unknown,
		`{"events":[{"type":"in"},{"type":"eg","error":"Not delivered"}]}`: Unknown,
		`{"events":[]}`: Unknown, `{}`: Unknown, ``: Unknown, `x`: Unknown,
	} {
		if got := traced([]byte(trace)); got != want {
			t.Errorf("%s: %v", trace, got)
		}
	}
}
