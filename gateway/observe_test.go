package gateway

import (
	"encoding/json"
	"net/http"
	"net/http/httptest"
	"regexp"
	"testing"

	"github.com/kvslots/kvslots/kvslots/kvslotstest"
	"github.com/kvslots/kvslots/kvslots/logtest"
)

// Each answer has the request's id: the client's own if it is well-formed, otherwise
// another one at each request. The log line has it, too, beside the client's trace.
func TestRequestID(t *testing.T) {
	const parent = "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01"
	var log logtest.Log
	handler := New(Config{Logger: log.Logger()}).Handler()
	seen := map[string]bool{}
	ask := func(id, trace string) (answered string) {
		t.Helper()
		log.Reset()
		r := httptest.NewRequest(http.MethodGet, "/health", nil)
		r.Header.Set("X-Request-Id", id)
		r.Header.Set("traceparent", trace)
		answer := httptest.NewRecorder()
		handler.ServeHTTP(answer, r)
		var line struct {
			RequestID string `json:"request_id"`
			TraceID   string `json:"trace_id"`
		}
		kvslotstest.Must(t, json.Unmarshal([]byte(log.String()), &line))
		answered = answer.Header().Get("X-Request-Id")
		if line.RequestID != answered || (line.TraceID != "") != (trace == parent) {
			t.Errorf("answered %q, trace %q; logged %s", answered, trace, &log)
		}
		return answered
	}
	if got := ask("mine-1", parent); got != "mine-1" {
		t.Errorf("the answer has %q", got)
	}
	for i := range 1000 {
		got := ask([]string{"", "not well\tformed"}[i%2], "")
		if !regexp.MustCompile(`^[0-9a-f]{16}$`).MatchString(got) || seen[got] {
			t.Fatalf("the answer has %q", got)
		}
		seen[got] = true
	}
}
