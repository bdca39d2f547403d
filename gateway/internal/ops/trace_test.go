package ops

import (
	"context"
	"log/slog"
	"strings"
	"testing"
	"time"

	"github.com/kvslots/kvslots/kvslots/logtest"
)

// Ids of clients are taken only if they are short and harmless in a log and in a header.
func TestTraceOf(t *testing.T) {
	const parent = "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01"
	for _, c := range []struct{ id, parent, wantID, wantParent string }{
		{"", "", "", ""},
		{"req-1_a.B", parent, "req-1_a.B", parent},
		{strings.Repeat("a", 64), strings.ToUpper(parent), strings.Repeat("a", 64), ""},
		{strings.Repeat("a", 65), parent[:54], "", ""},
		{"a b", "01" + parent[2:], "", ""},
		{"a\n", parent + "-x", "", ""},
		{"ä", "00-" + strings.Repeat("0", 32) + parent[35:], "", ""},
		{`a"`, parent[:36] + strings.Repeat("0", 16) + parent[52:], "", ""},
		{"{}", strings.Replace(parent, "-", "a", 2), "", ""},
	} {
		got := TraceOf(func(name string) string {
			return map[string]string{"X-Request-Id": c.id, "Traceparent": c.parent}[name]
		})
		if got.RequestID != c.wantID || got.Parent != c.wantParent {
			t.Errorf("%q, %q: got %+v", c.id, c.parent, got)
		}
	}
}

// atInfo is a handler whose level is info.
type atInfo struct{ slog.Handler }

func (atInfo) Enabled(_ context.Context, level slog.Level) bool { return level >= slog.LevelInfo }

// The line of a request costs next to nothing while its level is disabled.
func TestDisabledLinesAllocateNothing(t *testing.T) {
	log := slog.New(atInfo{logtest.Logger().Handler()})
	trace := Trace{RequestID: "a", Parent: "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01"}
	status, took := 200, 1500*time.Microsecond
	for code, want := range map[int]bool{200: false, 503: true} {
		allocated := testing.AllocsPerRun(100, func() {
			trace.Log(log, AccessLevel(code), "request", slog.String("method", "GET"), slog.Int("status", status),
				slog.Float64("duration_ms", Milliseconds(took)))
		})
		if (allocated > 0) != want {
			t.Errorf("%d: %g allocations", code, allocated)
		}
	}
}
