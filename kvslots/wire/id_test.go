package wire

import (
	"strings"
	"testing"

	"github.com/google/uuid"
)

func TestParseID(t *testing.T) {
	const id = "9f1c2e7a-5b3d-4c8e-a1f0-6d2b9c4e7a01"
	for _, c := range []struct {
		name, text string
		ok         bool
	}{
		{"canonical", id, true},
		{"upper case", strings.ToUpper(id), true},
		{"nil", uuid.Nil.String(), true},
		{"empty", "", false},
		{"no dashes", strings.ReplaceAll(id, "-", ""), false},
		{"urn", "urn:uuid:" + id, false},
		{"braces", "{" + id + "}", false},
		{"one short", id[:35], false},
		{"one long", id + "0", false},
		{"not hexadecimal", "g" + id[1:], false},
		{"dashes elsewhere", "9f1c2e7a5-b3d-4c8e-a1f0-6d2b9c4e7a01", false},
		{"not ASCII", "\u0663" + id[2:], false},
	} {
		t.Run(c.name, func(t *testing.T) {
			got, err := ParseID("id", c.text)
			if c.ok != (err == nil) {
				t.Fatalf("error %v, want ok %v", err, c.ok)
			}
			if c.ok && got.String() != strings.ToLower(c.text) {
				t.Errorf("got %v", got)
			}
			if !c.ok {
				checkText(t, err, "id must be a canonical UUID of 36 characters")
			}
		})
	}
}
