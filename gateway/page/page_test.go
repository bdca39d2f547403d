package page

import (
	"encoding/json"
	"errors"
	"io/fs"
	"net/http"
	"net/http/httptest"
	"os"
	"path"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/kvslots/kvslots/gateway"
	"github.com/kvslots/kvslots/gateway/internal/gatewaytest"
	"github.com/kvslots/kvslots/kvslots"
	"github.com/kvslots/kvslots/kvslots/logtest"
)

func TestMain(m *testing.M) { os.Exit(logtest.NoSecrets(m).Run()) }

// oneStore is a store with the given readiness.
type oneStore struct{ unready error }

func (s oneStore) Ready() error { return s.unready }

func (oneStore) Metrics() kvslots.Metrics {
	return kvslots.Metrics{
		Pools: kvslots.Totals{Pools: 4}, Named: kvslots.Totals{Pools: 3}, Waiting: 7, Sessions: 2,
		Peers: 3, LagRevisions: 5, Lag: 1500 * time.Millisecond,
	}
}

func open(t *testing.T, store oneStore, cfg Config) *gatewaytest.Gateway {
	t.Helper()
	return gatewaytest.Open(t, func(c *gateway.Config) {
		c.Tokens = gateway.NewTokens("secret")
		c.Dialects = []gateway.Dialect{New(store, cfg)}
	})
}

// Browsers get the page, and its files, without the token; programs get what they got before.
func TestPage(t *testing.T) {
	g := open(t, oneStore{}, Config{})
	for accept, want := range map[string]string{
		"text/html,application/xhtml+xml,*/*;q=0.8": "text/html; charset=utf-8",
		"*/*":                         "text/plain; charset=utf-8",
		"":                            "text/plain; charset=utf-8",
		"application/json":            "application/json",
		"text/html, application/json": "application/json",
	} {
		code, _, header := g.Do(t, "GET", "/", "", "Accept", accept)
		if got := header.Get("Content-Type"); code != 200 || got != want {
			t.Errorf("Accept %q: %d %s, want %s", accept, code, got, want)
		}
	}
	_, page, header := g.Do(t, "GET", "/", "", "Accept", "text/html")
	for _, rule := range []string{"default-src 'none'", "script-src 'self'", "connect-src 'self'", "frame-ancestors 'none'"} {
		if policy := header.Get("Content-Security-Policy"); !strings.Contains(policy, rule) {
			t.Errorf("the policy is %q, without %s", policy, rule)
		}
	}
	files := regexp.MustCompile(`(?:href|src)="(page/[^"]+)"`).FindAllStringSubmatch(page, -1)
	if len(files) < 3 {
		t.Errorf("the page names the files %v", files)
	}
	for _, file := range files {
		if code, content, _ := g.Do(t, "GET", "/"+file[1], ""); code != 200 || content == "" {
			t.Errorf("%s: %d", file[1], code)
		}
	}
	for _, wrong := range []string{"/page/", "/page/nothing.js", "/page/static", "/page/..%2fpage.go", "/page/page.go"} {
		if code, _, _ := g.Do(t, "GET", wrong, ""); code != 404 {
			t.Errorf("%s: %d, want 404", wrong, code)
		}
	}
}

func TestState(t *testing.T) {
	g := open(t, oneStore{}, Config{Admin: true, Sync: "always", Version: "v1.2.3"})
	if code, _, _ := g.Do(t, "GET", Path, ""); code != 401 {
		t.Errorf("without a token: %d, want 401", code)
	}
	want := state{
		Version: "v1.2.3", UI: "admin", Sync: "always", Ready: true, Peers: 3, LagRevisions: 5, Lag: 1.5,
		Pools: 4, Named: 3, Waiting: 7, Sessions: 2,
	}
	check := func(g *gatewaytest.Gateway) {
		t.Helper()
		var got state
		code, body, _ := g.Do(t, "GET", Path, "", "Authorization", "Bearer secret")
		if err := json.Unmarshal([]byte(body), &got); code != 200 || err != nil || got != want {
			t.Errorf("%d %s, want %+v", code, body, want)
		}
	}
	check(g)
	want.UI, want.Version, want.Ready, want.Reason = "read", "", false, "no quorum"
	check(open(t, oneStore{errors.New("no quorum")}, Config{Sync: "always"}))
}

// Each file has a type, contains nothing that the policy forbids, and names no other host.
func TestFiles(t *testing.T) {
	d := New(oneStore{}, Config{})
	entries, err := fs.ReadDir(static, "static")
	if err != nil || len(entries) != len(d.files) {
		t.Fatal(err, len(d.files))
	}
	forbidden := regexp.MustCompile(`https?://|innerHTML|insertAdjacentHTML|document\.write|\beval\b|localStorage|document\.cookie|style="|\son[a-z]+="`)
	for name, content := range d.files {
		if types[path.Ext(name)] == "" {
			t.Errorf("%s has no type", name)
		}
		text := strings.ReplaceAll(string(content), "http://www.w3.org/2000/svg", "") // a name, which is not fetched
		if found := forbidden.FindString(text); found != "" {
			t.Errorf("%s contains %s", name, found)
		}
		if path.Ext(name) == ".js" && !strings.HasPrefix(text, "// @ts-check\n") {
			t.Errorf("%s is not checked by TypeScript", name)
		}
	}
	answer := httptest.NewRecorder()
	d.ServePage(answer, httptest.NewRequest(http.MethodHead, "/", nil))
	if answer.Code != 200 || answer.Body.Len() > 0 {
		t.Errorf("HEAD: %d, %d bytes", answer.Code, answer.Body.Len())
	}
}
