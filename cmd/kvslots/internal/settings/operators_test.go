package settings

import (
	"slices"
	"strings"
	"testing"
)

func TestParseOperators(t *testing.T) {
	all, err := parseOperators("# a comment\n\nann admin hunter2\n bob  read\thunter3\r\n")
	if err != nil || !slices.Equal(all, []Operator{{"ann", "hunter2", false}, {"bob", "hunter3", true}}) {
		t.Errorf("%v, %v", all, err)
	}
	for content, want := range map[string]string{
		"":                                     "no token",
		"# ann admin hunter2":                  "no token",
		"ann admin":                            "line 1 must be",
		"ann admin hunter2\nbob write hunter3": "line 2 must be",
		"ann admin hünter2":                    "line 1 must be",
		"ann read a\nann admin hunter2":        "line 2 has the name",
		"ann read hunter2\nbob admin hunter2":  "line 2 has the name or the token",
	} {
		if _, err := parseOperators(content); err == nil || !strings.Contains(err.Error(), want) || strings.Contains(err.Error(), "unter") {
			t.Errorf("%q: %v", content, err)
		}
	}
}
