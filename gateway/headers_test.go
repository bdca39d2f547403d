package gateway

import (
	"bufio"
	"io"
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
		answer := ask(g, c.method, c.path)
		want := map[string]string{"Kvslots-Error": c.name}
		maps.Copy(want, wantOfAll)
		for name, value := range want {
			if got := answer.Header().Get(name); answer.Code != c.code || got != value {
				t.Errorf("%s %s: %d, %s %q, want %d, %q", c.method, c.path, answer.Code, name, got, c.code, value)
			}
		}
	}
}

// net/http answers what it cannot parse or does not support without a handler.
func TestAnswersOfNetHTTPHaveTheHeaders(t *testing.T) {
	_, addr := serveLimited(t, func(*Config) {})
	for request, code := range map[string]int{
		"nonsense\r\n\r\n":          400,
		"GET /t/1 HTTP/1.1\r\n\r\n": 400, // no Host
		"POST /t/1 HTTP/1.1\r\nHost: localhost\r\nContent-Length: 1\r\nExpect: x\r\n\r\n": 417,
		"GET /t/1 HTTP/1.1\r\nHost: localhost\r\nX: " + strings.Repeat("x", maxHeader):    431,
		"POST /t/1 HTTP/1.1\r\nHost: localhost\r\nTransfer-Encoding: gzip\r\n\r\n":        501,
		"GET /t/1 HTTP/3.0\r\nHost: localhost\r\n\r\n":                                    505,
	} {
		conn := dial(t, addr)
		io.WriteString(conn, request)
		answer, err := http.ReadResponse(bufio.NewReader(conn), nil)
		if err != nil {
			t.Fatal(request, err)
		}
		answer.Body.Close()
		for name, value := range wantOfAll {
			if got := answer.Header.Values(name); answer.StatusCode != code || len(got) != 1 || got[0] != value {
				t.Errorf("%.40q: %d, %s %q, want %d, %q", request, answer.StatusCode, name, got, code, value)
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
