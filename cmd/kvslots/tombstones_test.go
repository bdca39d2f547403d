package main

import (
	"net/http"
	"strconv"
	"strings"
	"testing"

	"github.com/google/uuid"
)

// A client that registers and deletes pools is refused when it has left half of
// --max-tombstones. Nothing else is.
func TestServeTombstones(t *testing.T) {
	p := startServe(t, noEnv, "--data-dir", t.TempDir(), "--sync", "interval", "--max-tombstones", "20")
	kept := "/l/" + uuid.NewString()
	p.ask(t, "PUT", kept, `{"count":2}`)
	for n := range 10 {
		pool := "/l/" + uuid.NewString()
		if code, body := p.ask(t, "PUT", pool, `{"count":1}`); code != http.StatusOK {
			t.Fatalf("after %d deletions: %d %s", n, code, body)
		}
		p.ask(t, "DELETE", pool, "")
	}
	code, header, body := p.askWith(t, nil, "PUT", "/l/"+uuid.NewString(), `{"count":1}`)
	if after, err := strconv.Atoi(header.Get("Retry-After")); code != http.StatusTooManyRequests || header.Get("Kvslots-Error") != "max_tombstones" || err != nil || after < 1 {
		t.Errorf("%d %v %s", code, header, body)
	}
	if code, _, body := p.askWith(t, nil, "POST", "/v1/sessions", ""); code != http.StatusTooManyRequests || !strings.Contains(body, `"max_tombstones"`) {
		t.Errorf("a session: %d %s", code, body)
	}
	for _, body := range []string{`{"count":3}`, `{"count":1}`} {
		if code, answer := p.ask(t, "PUT", kept, body); code != http.StatusOK {
			t.Errorf("another count: %d %s", code, answer)
		}
	}
	if code, body := p.ask(t, "POST", kept+"/borrow", `{"ttl":5}`); code != http.StatusOK {
		t.Errorf("a borrow: %d %s", code, body)
	}
}
