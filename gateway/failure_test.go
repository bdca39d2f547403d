package gateway

import (
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/go-chi/chi/v5"

	"github.com/kvslots/kvslots/kvslots/logtest"
)

// codedDialect renders errors with their codes, below /v1.
type codedDialect struct{}

func (codedDialect) Mount(r chi.Router) {
	r.Get("/v1/locks/{key}", func(w http.ResponseWriter, _ *http.Request) { io.WriteString(w, "ok") })
	r.Get("/v1/openapi.json", func(w http.ResponseWriter, _ *http.Request) { io.WriteString(w, "{}") })
	r.Post("/v1/openapi.json", func(w http.ResponseWriter, _ *http.Request) { io.WriteString(w, "{}") })
	r.Get("/v1/panic", func(http.ResponseWriter, *http.Request) { panic("boom") })
}

func (codedDialect) Prefix() string { return "/v1" }

func (codedDialect) RenderError(w http.ResponseWriter, status int, code, text string) {
	w.WriteHeader(status)
	io.WriteString(w, code+": "+text)
}

// newGuardedGateway returns a gateway with both kinds of dialects, and a changed Config.
func newGuardedGateway(change func(cfg *Config)) *Gateway {
	cfg := Config{
		Store:    storeState{},
		Sync:     "always",
		Dialects: []Dialect{testDialect{NewLending()}, codedDialect{}},
		Logger:   logtest.Logger(),
	}
	change(&cfg)
	return New(cfg)
}

func TestDialectsRenderErrors(t *testing.T) {
	g := newGuardedGateway(func(*Config) {})
	for _, c := range []struct {
		method, path string
		code         int
		allow, body  string
	}{
		{"GET", "/v1/locks/hunter2", 200, "", "ok"},
		{"GET", "/v1/hunter2", 404, "", "not_found: not found"},
		{"GET", "/v1", 404, "", "not_found: not found"},
		{"GET", "/v1/", 404, "", "not_found: not found"},
		{"GET", "/v1/locks/hunter2/", 404, "", "not_found: not found"},
		{"BREW", "/v1/hunter2", 404, "", "not_found: not found"},
		{"PUT", "/v1/locks/hunter2", 405, "GET", "method_not_allowed: method not allowed"},
		{"BREW", "/v1/locks/hunter2", 405, "GET", "method_not_allowed: method not allowed"},
		{"GET", "/v1/panic", 500, "", "internal_error: internal error"},
		{"GET", "/v10/hunter2", 404, "", `{"error":"not found"}`},
		{"GET", "/%761/hunter2", 404, "", `{"error":"not found"}`},
		{"GET", "/x/v1/hunter2", 404, "", `{"error":"not found"}`},
		{"PUT", "/t/hunter2", 405, "GET, POST", `{"error":"method not allowed"}`},
		{"GET", "/panic/hunter2", 500, "", `{"error":"internal error"}`},
	} {
		t.Run(c.method+" "+c.path, func(t *testing.T) {
			answer := get(g, c.method, c.path)
			if answer.Code != c.code || answer.Body.String() != c.body {
				t.Errorf("got %d %s, want %d %s", answer.Code, answer.Body, c.code, c.body)
			}
			if got := answer.Header().Get("Allow"); got != c.allow {
				t.Errorf("Allow %q, want %q", got, c.allow)
			}
		})
	}
}

// ask is like get, with headers, "Name: value".
func ask(g *Gateway, method, path string, headers ...string) *httptest.ResponseRecorder {
	r := httptest.NewRequest(method, path, nil)
	for _, header := range headers {
		name, value, _ := strings.Cut(header, ": ")
		r.Header.Add(name, value)
	}
	answer := httptest.NewRecorder()
	g.Handler().ServeHTTP(answer, r)
	return answer
}
