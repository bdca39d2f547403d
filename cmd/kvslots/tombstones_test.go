package main

import (
	"net/http"
	"strings"
	"testing"

	"github.com/google/uuid"
)

// A client that registers and deletes pools is refused when it has left half of
// --max-tombstones. Nothing else is.
func TestServeTombstones(t *testing.T) {
	p := startServe(t, noEnv, "--data-dir", t.TempDir(), "--sync", "interval", "--max-tombstones", "20", "--nats-addr", "127.0.0.1:0")
	serveFunction(t, p.logs.waitFor(t, "listening")["nats"].(string), "a.b", done)
	kept := "/l/" + uuid.NewString()
	p.ask(t, "PUT", kept, `{"count":2}`)
	for n := range 10 {
		pool := "/l/" + uuid.NewString()
		if code, body := p.ask(t, "PUT", pool, `{"count":1}`); code != http.StatusOK {
			t.Fatalf("after %d deletions: %d %s", n, code, body)
		}
		p.ask(t, "DELETE", pool, "")
	}
	for _, c := range []struct{ method, path, body, want string }{
		{"PUT", "/l/" + uuid.NewString(), `{"count":1}`, `"the address has left too many`},
		{"POST", "/v1/sessions", "", `"max_tombstones"`},
		{"POST", "/rpc", rpc("a.b", `{}`, lock30), `"RATE_LIMITED","message":"The address has left too many`},
	} {
		code, header, body := p.askWith(t, nil, c.method, c.path, c.body)
		if code != http.StatusTooManyRequests || header.Get("Kvslots-Error") != "max_tombstones" && c.path != "/rpc" ||
			header.Get("Retry-After") != "30" || !strings.Contains(body, c.want) {
			t.Errorf("%s: %d %v %s", c.path, code, header, body)
		}
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
