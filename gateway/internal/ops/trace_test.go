package ops

import (
	"strings"
	"testing"
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
