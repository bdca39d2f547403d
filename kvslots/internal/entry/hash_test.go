package entry

import (
	"encoding/json"
	"testing"
)

func TestHashOfDependsOnDomain(t *testing.T) {
	if HashOf("lease", "x") == HashOf("session", "x") {
		t.Error("one text has one hash in two domains")
	}
	if HashOf("", "").IsZero() {
		t.Error("the hash of an empty text is the zero hash")
	}
}

// The bucket outlives the program: a hash that changed would lose every pool.
func TestHashOfStaysTheSame(t *testing.T) {
	if got, want := HashOf("library", "a").String(), "6d52f4652de2e07e288048a6e2569237"; got != want {
		t.Errorf("got %s, want %s", got, want)
	}
}

func TestHashText(t *testing.T) {
	h := HashOf("lease", "x")
	text, err := json.Marshal(h)
	if err != nil {
		t.Fatal(err)
	}
	var got Hash
	if err := json.Unmarshal(text, &got); err != nil || got != h {
		t.Fatalf("read back as %s, %v", got, err)
	}
	for _, bad := range []string{`""`, `"0"`, `"` + h.String() + `0"`, `"0123456789ABCDEF0123456789abcdef"`} {
		if err := json.Unmarshal([]byte(bad), &got); err == nil {
			t.Errorf("%s was accepted as a hash", bad)
		}
	}
}
