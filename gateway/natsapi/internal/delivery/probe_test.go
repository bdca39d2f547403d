package delivery

import "testing"

func TestTraces(t *testing.T) {
	for version, want := range map[string]bool{
		"2.11.0": true, "2.15.2": true, "3.0.0": true, "2.12.0-RC.1": true,
		"2.10.29": false, "1.4.1": false, "": false, "2": false, "x.y": false,
	} {
		if got := traces(version); got != want {
			t.Errorf("%q: %v", version, got)
		}
	}
}

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
