package gateway

import (
	"maps"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"
)

// everyAnswer are requests, one for each kind of answer.
var everyAnswer = []struct {
	method, path string
	code         int
	name         string // in Kvslots-Error
}{
	{"GET", "/health", 200, ""},
	{"GET", "/ready", 200, ""},
	{"GET", "/metrics", 200, ""},
	{"GET", "/v1/openapi.json", 200, ""},
	{"GET", "/t/1", 200, ""},
	{"GET", "/nothing", 404, "not_found"},
	{"GET", "/v1/x", 404, "not_found"},
	{"PUT", "/t/1", 405, "method_not_allowed"},
	{"PUT", "/v1/locks/x", 405, "method_not_allowed"},
	{"GET", "/panic/1", 500, "internal_error"},
	{"GET", "/v1/panic", 500, "internal_error"},
}

var wantOfAll = map[string]string{
	"Cache-Control": "no-store", "Referrer-Policy": "no-referrer", "X-Content-Type-Options": "nosniff",
	"Cross-Origin-Resource-Policy": "same-origin", "Content-Security-Policy": "default-src 'none'; frame-ancestors 'none'",
}

func TestEveryAnswerHasTheHeaders(t *testing.T) {
	g := newGuardedGateway(func(*Config) {})
	for _, c := range everyAnswer {
		answer := ask(g, c.method, c.path, "Sec-Fetch-Site: same-origin")
		want := map[string]string{"Kvslots-Error": c.name, "Kvslots-Store": "STORSTORSTORSTORSTORSTORES"}
		maps.Copy(want, wantOfAll)
		for name, value := range want {
			if got := answer.Header().Get(name); answer.Code != c.code || got != value {
				t.Errorf("%s %s: %d, %s %q, want %d, %q", c.method, c.path, answer.Code, name, got, c.code, value)
			}
		}
	}
}

// A program that sends neither Origin nor Sec-Fetch-Site with a request that may write is no browser.
func TestHeadersForBrowsers(t *testing.T) {
	g := newGuardedGateway(func(*Config) {})
	for _, headers := range [][]string{nil, {"Origin: http://example.com"}, {"Sec-Fetch-Site: same-origin"}} {
		answer := ask(g, "POST", "/t/1", headers...)
		for name := range wantOfAll {
			want := headers != nil || name == "Cache-Control"
			if got := answer.Header().Get(name) != ""; got != want || answer.Code != 200 {
				t.Errorf("%v: %d, %s is there: %v", headers, answer.Code, name, got)
			}
		}
	}
}

// A client that does not read its answer is disconnected, whatever its request.
func TestEveryAnswerHasADeadline(t *testing.T) {
	g := newGuardedGateway(func(*Config) {})
	for _, c := range everyAnswer {
		before := time.Now()
		w := &deadlineWriter{ResponseRecorder: httptest.NewRecorder()}
		g.Handler().ServeHTTP(w, httptest.NewRequest(c.method, c.path, nil))
		if left := w.writing.Sub(before); left < 5*time.Second || left > 15*time.Second {
			t.Errorf("%s %s: the deadline is at %s, %s after the request", c.method, c.path, w.writing, left)
		}
	}
}

// A 100 Continue is written before the answer, when the deadline of the answer before
// may have passed.
func TestBodiesHaveADeadlineForWriting(t *testing.T) {
	g := newGuardedGateway(func(*Config) {})
	w := &deadlineWriter{ResponseRecorder: httptest.NewRecorder()}
	r := httptest.NewRequest(http.MethodPost, "/t/1", strings.NewReader("{}"))
	r.Header.Set("Expect", "100-continue")
	g.prepare(w, r)
	if w.writing.IsZero() || w.reading.IsZero() {
		t.Errorf("deadlines %s, %s", w.reading, w.writing)
	}
}

// deadlineWriter remembers the deadlines.
type deadlineWriter struct {
	*httptest.ResponseRecorder
	reading, writing time.Time
}

func (w *deadlineWriter) SetReadDeadline(at time.Time) error {
	w.reading = at
	return nil
}

func (w *deadlineWriter) SetWriteDeadline(at time.Time) error {
	w.writing = at
	return nil
}
