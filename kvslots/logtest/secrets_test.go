package logtest

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/uuid"

	"github.com/kvslots/kvslots/kvslots/internal/entry"
)

const id = "0f087d1f-470d-4e96-9924-de6987998b83"

func TestSecretsAreFound(t *testing.T) {
	for _, c := range []struct {
		text string
		want bool
	}{
		{`"pool":"` + id + `"`, true},
		{"pool " + strings.ToUpper(id), true},
		{"Max control line of 4096, buffer PUB " + id[:20], true},
		{`"session":"` + strings.ReplaceAll(id, "-", "") + `"`, true},
		{`"trace_id":"` + strings.ReplaceAll(id, "-", "") + `"`, false},
		{`"trace_id":"` + strings.ReplaceAll(id, "-", "") + `","id":"` + id + `"`, true},
		{`"key_hash":"` + strings.ReplaceAll(id, "-", "") + `"`, false},
		{"SU" + strings.Repeat("A2", 28), true},
		{"-----BEGIN PRIVATE KEY-----", true},
		{"password hunter2", true},
		{`"request_id":"0123456789abcdef","duration_ms":1.5`, false},
		{"sha256 " + strings.Repeat("0123456789abcdef", 4), false},
	} {
		var log Log
		if _, err := log.Write([]byte(c.text)); err != nil || !strings.HasSuffix(log.String(), c.text) {
			t.Error(err, log.String())
		}
		if found := take(); (len(found) > 0) != c.want {
			t.Errorf("%s: found %q, want %v", c.text, found, c.want)
		}
	}
}

func TestSecretsInFilesAreFound(t *testing.T) {
	digits := strings.ReplaceAll(id, "-", "")
	binary, hashed := uuid.MustParse(id), entry.HashOf("session", digits).String()
	raw := string(binary[:])
	for text, want := range map[string]int{
		"\x00\xffp." + digits + ".cfg":                    0,
		"\x00\xff" + id[:20]:                              1,
		"n." + hashed + "{" + digits + "a":                1, // a checksum follows
		"n." + hashed + "{a" + raw + "a":                  1,
		"n." + hashed + strings.Repeat("\x00", 100) + raw: 1,
	} {
		dir := t.TempDir()
		below := filepath.Join(dir, "msgs")
		if err := errors.Join(os.Mkdir(below, 0o700), os.WriteFile(filepath.Join(below, "1.blk"), []byte(text), 0o600)); err != nil {
			t.Fatal(err)
		}
		if SearchDir(dir); len(take()) != want {
			t.Errorf("%q: want %d secrets", text, want)
		}
	}
}

// take returns what was found, and forgets it.
func take() (found []string) {
	leaks.Lock()
	defer leaks.Unlock()
	found, leaks.texts = leaks.texts, nil
	return found
}

// tests is a package whose tests end with a code, and log something.
type tests struct {
	code int
	log  string
}

func (p tests) Run() int {
	Logger().Info(p.log)
	return p.code
}

func TestNoSecrets(t *testing.T) {
	for _, c := range []struct {
		tests
		want int
	}{{tests{0, "nothing"}, 0}, {tests{0, id}, 1}, {tests{3, "nothing"}, 3}, {tests{3, id}, 3}} {
		if code := NoSecrets(c.tests).Run(); code != c.want {
			t.Errorf("%+v: exit code %d, want %d", c.tests, code, c.want)
		}
		take()
	}
}

func TestAwait(t *testing.T) {
	var out Output
	go func() {
		for range 3 {
			_, _ = out.Write([]byte("a"))
		}
	}()
	if got := out.Await(t, func(text string) bool { return len(text) == 3 }); got != "aaa" {
		t.Error(got)
	}
	if out.Reset(); out.String() != "" {
		t.Error(out.String())
	}
}
