package settings

import (
	"slices"
	"strings"
	"testing"

	"github.com/kvslots/kvslots/gateway"
)

func TestParseTokens(t *testing.T) {
	all, err := parseTokens("# a comment\n\nann admin hunter2\n bob  read\thunter3\r\nhunter4\nhunter5")
	if err != nil || !slices.Equal(all, []gateway.Token{{Name: "ann", Token: "hunter2"}, {Name: "bob", Token: "hunter3", ReadOnly: true}, {Token: "hunter4"}, {Token: "hunter5"}}) {
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
		"hunter2\nhunter2":                     "line 2 has the name or the token",
	} {
		if _, err := parseTokens(content); err == nil || !strings.Contains(err.Error(), want) || strings.Contains(err.Error(), "unter") {
			t.Errorf("%q: %v", content, err)
		}
	}
}
