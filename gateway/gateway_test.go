package gateway

import (
	"context"
	"errors"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/go-chi/chi/v5"

	"github.com/kvslots/kvslots/kvslots/kvslotstest"
	"github.com/kvslots/kvslots/kvslots/logtest"
)

// storeState is a store that is ready, or not for the given reason.
type storeState struct{ err error }

func (s storeState) Ready() error { return s.err }

func (s storeState) ID() string { return strings.Repeat("STOR", 6) + "ES" }

// testDialect has a route for each thing that a handler may do.
type testDialect struct{ lending *Lending }

func (d testDialect) Mount(r chi.Router) {
	r.Get("/t/{id}", func(w http.ResponseWriter, _ *http.Request) { io.WriteString(w, "ok") })
	r.Post("/t/{id}", func(w http.ResponseWriter, _ *http.Request) { io.WriteString(w, "ok") })
	r.Get("/panic/{id}", func(_ http.ResponseWriter, r *http.Request) { panic("secret " + r.URL.Path) })
	r.Get("/crash/{id}", func(http.ResponseWriter, *http.Request) { var none []int; none[0]++ })
	r.Get("/half/{id}", func(w http.ResponseWriter, _ *http.Request) { io.WriteString(w, "half"); panic("late") })
	r.Get("/borrow", d.borrow)
}

// borrow waits until lending stops or the client hangs up.
func (d testDialect) borrow(w http.ResponseWriter, r *http.Request) {
	ctx, end := d.lending.Begin(r.Context())
	defer end()
	<-ctx.Done()
	io.WriteString(w, context.Cause(ctx).Error())
}

func newTestGateway(store storeState) (*Gateway, *logtest.Log) {
	var lines logtest.Log
	lending := NewLending()
	return New(Config{
		Store:    store,
		Sync:     "always",
		Lending:  lending,
		Dialects: []Dialect{testDialect{lending}},
		Version:  "v1.2.3",
		Logger:   lines.Logger(),
	}), &lines
}

// get calls the handler without a server.
func get(g *Gateway, method, path string) *httptest.ResponseRecorder {
	answer := httptest.NewRecorder()
	g.Handler().ServeHTTP(answer, httptest.NewRequest(method, path, nil))
	return answer
}

func TestEveryPathIsJSON(t *testing.T) {
	g, _ := newTestGateway(storeState{})
	for _, c := range []struct {
		method, path string
		code         int
		allow, body  string
	}{
		{"GET", "/health", 200, "", `{"status":"ok"}`},
		{"HEAD", "/health", 200, "", `{"status":"ok"}`}, // the server drops the body
		{"POST", "/health", 405, "GET, HEAD", `{"error":"method not allowed"}`},
		{"DELETE", "/metrics", 405, "GET, HEAD", `{"error":"method not allowed"}`},
		{"POST", "/", 405, "GET, HEAD", `{"error":"method not allowed"}`},
		{"GET", "//", 404, "", `{"error":"not found"}`},
		{"GET", "/nothing", 404, "", `{"error":"not found"}`},
		{"GET", "/health/", 404, "", `{"error":"not found"}`},
		{"GET", "//health", 404, "", `{"error":"not found"}`},
		{"GET", "/x/../health", 404, "", `{"error":"not found"}`},
		{"GET", "/%2e%2e/health", 404, "", `{"error":"not found"}`},
		{"BREW", "/nothing", 404, "", `{"error":"not found"}`},
		{"BREW", "/t/1", 405, "GET, POST", `{"error":"method not allowed"}`},
		{"CONNECT", "/t/1", 405, "GET, POST", `{"error":"method not allowed"}`},
		{"OPTIONS", "*", 404, "", `{"error":"not found"}`},
	} {
		t.Run(c.method+" "+c.path, func(t *testing.T) {
			answer := get(g, c.method, c.path)
			if answer.Code != c.code || answer.Body.String() != c.body {
				t.Errorf("got %d %s, want %d %s", answer.Code, answer.Body, c.code, c.body)
			}
			if kind := answer.Header().Get("Content-Type"); kind != "application/json" {
				t.Errorf("Content-Type %q", kind)
			}
			if got := answer.Header().Get("Allow"); got != c.allow {
				t.Errorf("Allow %q, want %q", got, c.allow)
			}
		})
	}
}

func TestReady(t *testing.T) {
	for _, c := range []struct {
		name  string
		store storeState
		drain bool
		code  int
		body  string
	}{
		{"ready", storeState{}, false, 200, `{"status":"ready","sync":"always"}`},
		{"store not ready", storeState{errors.New("the view is 3 s behind")}, false, 503, `{"status":"unavailable","reason":"the view is 3 s behind"}`},
		{"draining", storeState{}, true, 503, `{"status":"draining"}`},
		{"both", storeState{errors.New("gone")}, true, 503, `{"status":"draining"}`},
	} {
		t.Run(c.name, func(t *testing.T) {
			g, _ := newTestGateway(c.store)
			if c.drain {
				g.cfg.Lending.Stop()
			}
			answer := askChecked(t, g, "GET", "/ready")
			if answer.Code != c.code || answer.Body.String() != c.body {
				t.Errorf("got %d %s, want %d %s", answer.Code, answer.Body, c.code, c.body)
			}
			if health := askChecked(t, g, "GET", "/health"); health.Code != 200 {
				t.Errorf("/health is %d", health.Code)
			}
		})
	}
}

func TestPanics(t *testing.T) {
	g, lines := newTestGateway(storeState{})
	for path, want := range map[string]string{
		"/panic/9f1c2e7a": `"panic":"string"`,
		"/crash/9f1c2e7a": `"panic":"runtime error: index out of range [0] with length 0"`,
	} {
		lines.Reset()
		answer := get(g, "GET", path)
		if answer.Code != 500 || answer.Body.String() != `{"error":"internal error"}` {
			t.Errorf("%s: %d %s", path, answer.Code, answer.Body)
		}
		if !strings.Contains(lines.String(), want) || !strings.Contains(lines.String(), "recover.go") {
			t.Errorf("%s: logged without %s or without a stack:\n%s", path, want, lines)
		}
		if strings.Contains(lines.String(), "9f1c2e7a") {
			t.Errorf("%s: the path is in the log:\n%s", path, lines)
		}
	}
}

func TestPanicInTheMiddleCutsTheConnection(t *testing.T) {
	g, _ := newTestGateway(storeState{})
	defer func() {
		if reason := recover(); reason != http.ErrAbortHandler {
			t.Errorf("recovered %v, want http.ErrAbortHandler", reason)
		}
	}()
	get(g, "GET", "/half/1")
}

func TestAccessLog(t *testing.T) {
	g, lines := newTestGateway(storeState{errors.New("gone")})
	for _, c := range []struct{ method, path, want string }{
		{"GET", "/t/9f1c2e7a", `{"level":"debug","message":"request","method":"GET","route":"/t/{id}","status":200,`},
		{"GET", "/nothing/9f1c2e7a", `{"level":"debug","message":"request","method":"GET","route":"none","status":404,`},
		{"9f1c2e7a", "/t/9f1c2e7a", `{"level":"debug","message":"request","method":"other","route":"none","status":405,`},
		{"GET", "/ready", `{"level":"info","message":"request","method":"GET","route":"/ready","status":503,`},
	} {
		lines.Reset()
		get(g, c.method, c.path)
		if !strings.HasPrefix(lines.String(), c.want) {
			t.Errorf("%s %s: logged %s, want %s…", c.method, c.path, lines, c.want)
		}
	}
}

func TestMetrics(t *testing.T) {
	g, _ := newTestGateway(storeState{})
	_, end := g.cfg.Lending.Begin(t.Context())
	defer end()
	get(g, "GET", "/t/9f1c2e7a")
	get(g, "POST", "/t/9f1c2e7a")
	get(g, "9f1c2e7a", "/9f1c2e7a")
	metrics := askChecked(t, g, "GET", "/metrics").Body.String()
	for _, want := range []string{
		`kvslots_http_request_duration_seconds_count{method="GET",route="/t/{id}",status="200"} 1`,
		`kvslots_http_request_duration_seconds_count{method="POST",route="/t/{id}",status="200"} 1`,
		`kvslots_http_request_duration_seconds_count{method="other",route="none",status="404"} 1`,
		`kvslots_waiting_borrowers 1`,
		`version="v1.2.3"} 1`,
		`go_goroutines`,
		`process_`,
	} {
		if !strings.Contains(metrics, want) {
			t.Errorf("no %s in the metrics", want)
		}
	}
	if strings.Contains(metrics, "9f1c2e7a") {
		t.Error("a path is in the metrics")
	}
}

// serve runs a gateway on its own port. The channel receives the result of Serve.
func serve(t *testing.T, g *Gateway) (addr string, served <-chan error) {
	t.Helper()
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	kvslotstest.Must(t, err)
	done := make(chan error, 1)
	go func() { done <- g.Serve(ln) }()
	return ln.Addr().String(), done
}
