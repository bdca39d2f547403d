package entry

import (
	"strings"
	"testing"
)

func TestIsText(t *testing.T) {
	for text, want := range map[string]bool{
		"": true, "ci@build7:1234 make": true, strings.Repeat("é", MaxText): true, "a\u0301\u0302\u0303b\u0301": true, "👍": true,
		strings.Repeat("é", MaxText+1): false, "a\nb": false, "\xff": false, "a\u202eb": false, "\u200b": false,
		"a" + strings.Repeat("\u0301", maxMarks+1): false, "\u2800": false, "\u3164": false, "\u115f": false,
	} {
		if IsText(text) != want {
			t.Errorf("%q: %v", text, !want)
		}
	}
}
