package openapitest

import (
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"go.uber.org/goleak"

	"github.com/kvslots/kvslots/kvslots/kvslotstest"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

const (
	pool    = "/l/9f1c2e7a-5b3d-4c8e-a1f0-6d2b9c4e7a01"
	state   = `{"id":"9f1c2e7a-5b3d-4c8e-a1f0-6d2b9c4e7a01","count":1,"in_use":0,"available":1,"waiting":0}`
	shown   = `{"id":"9f1c2e7a-5b3d-4c8e-a1f0-6d2b9c4e7a01","count":1,"in_use":0,"available":1,"waiting":0,"hash":"d600c24f962d5930089cc56981788d46"}`
	session = "0123456789abcdef0123456789abcdef"
	granted = `{"status":"ok","token":"` + session + `","lease_ttl_s":33}`
	refused = `{"error":"draining"}`
)

// exchanged is an exchange of a test, with headers as "Name: value" lines.
type exchanged struct {
	name, method, path, header, asked string
	status                            int
	answerHeader, answer              string
}

func (e exchanged) exchange() exchange {
	request := httptest.NewRequest(e.method, "http://127.0.0.1:8080"+e.path, nil)
	request.Header = headers(e.header)
	return exchange{request, []byte(e.asked), e.status, headers("X-Request-Id: mine-1\n" + e.answerHeader), []byte(e.answer)}
}

func headers(lines string) http.Header {
	header := http.Header{}
	for line := range strings.Lines(lines) {
		name, value, _ := strings.Cut(strings.TrimSpace(line), ":")
		header.Set(name, strings.TrimSpace(value))
	}
	return header
}

const (
	asJSON    = "Content-Type: application/json\n"
	inSession = "X-Dflockd-Session: " + session
)

func TestWrongAnswers(t *testing.T) {
	for _, c := range []exchanged{
		{"unknown status", "GET", pool, "", "", 409, asJSON, refused},
		{"redirection", "GET", pool, "", "", 308, asJSON, ""},
		{"unknown status of head", "HEAD", pool, "", "", 409, asJSON, ""},
		{"body of head", "HEAD", pool, "", "", 200, asJSON, shown},
		{"field too many", "GET", pool, "", "", 200, asJSON, `{"fence":1,` + shown[1:]},
		{"field too few", "GET", pool, "", "", 200, asJSON, strings.Replace(shown, `,"waiting":0`, "", 1)},
		{"field of another type", "GET", pool, "", "", 200, asJSON, strings.Replace(shown, `1,"in`, `"1","in`, 1)},
		{"field out of range", "GET", pool, "", "", 200, asJSON, strings.Replace(shown, `1,"in`, `-1,"in`, 1)},
		{"no JSON", "GET", pool, "", "", 200, asJSON, "{"},
		{"other media type", "GET", pool, "", "", 200, "Content-Type: text/plain", shown},
		{"no media type", "GET", pool, "", "", 200, "", shown},
		{"no Retry-After", "GET", pool, "", "", 503, asJSON, refused},
		{"Retry-After in words", "GET", pool, "", "", 503, asJSON + "Retry-After: soon", refused},
		{"no Retry-After of head", "HEAD", pool, "", "", 503, asJSON, ""},
		{"no request id", "GET", pool, "", "", 200, asJSON + "X-Request-Id: ", shown},
		{"request id with a space", "GET", pool, "", "", 200, asJSON + "X-Request-Id: a b", shown},
		{"no request id at an unknown path", "GET", "/x", "", "", 404, asJSON + "X-Request-Id: ", `{"error":"not found"}`},
		{"no challenge", "GET", pool, "", "", 401, asJSON, `{"error":"unauthorized"}`},
		{"code of pools", "GET", pool, "", "", 400, asJSON, `{"error":"bad_request","detail":"d"}`},
		{"text of locks", "POST", "/v1/locks/k", inSession, "", 400, asJSON, `{"error":"body must be one JSON object"}`},
		{"code of another status", "POST", "/v1/locks/k", inSession, "", 409, asJSON, `{"error":"bad_request"}`},
		{"field of an error", "POST", "/v1/locks/k", inSession, "", 409, asJSON, `{"error":"limit_mismatch","limit":1}`},
		{"body of no content", "DELETE", "/v1/sessions/" + session, "", "", 204, asJSON, `{}`},
		{"grant without token", "POST", "/v1/locks/k", inSession, `{"acquire_timeout_s":1}`, 200, asJSON, `{"status":"ok","lease_ttl_s":33}`},
		{"token of timeout", "POST", "/v1/locks/k", inSession, `{"acquire_timeout_s":1}`, 200, asJSON, strings.Replace(granted, "ok", "timeout", 1)},
		{"upper case", "POST", "/v1/locks/k", inSession, `{"acquire_timeout_s":1}`, 200, asJSON, strings.Replace(granted, "abc", "ABC", 1)},
		{"success without a field", "PUT", pool, "", `{}`, 200, asJSON, state},
		{"success out of range", "PUT", pool, "", `{"count":1001}`, 200, asJSON, state},
		{"success with an unknown field", "POST", "/v1/locks/k", inSession, `{"acquire_timeout_s":1,"more":1}`, 200, asJSON, granted},
		{"success without a session", "POST", "/v1/locks/k", "", `{"acquire_timeout_s":1}`, 200, asJSON, granted},
		{"success without a body", "POST", "/v1/semaphores/k/enqueue", inSession, "", 200, asJSON, `{"status":"queued"}`},
		{"success of another id", "GET", "/l/9f1c", "", "", 200, asJSON, shown},
		{"unknown path answers", "GET", "/x", "", "", 200, asJSON, `{}`},
		{"unknown path in plain text", "GET", "/x", "", "", 404, "Content-Type: text/plain", `404 page not found`},
		{"unknown path without an error", "GET", "/x", "", "", 404, asJSON, `{}`},
		{"unknown method answers", "PATCH", pool, "", "", 200, asJSON, `{}`},
		{"unknown method is not found", "PATCH", pool, "", "", 404, asJSON, `{"error":"not found"}`},
		{"other methods allowed", "PATCH", pool, "", "", 405, asJSON + "Allow: GET, PUT, DELETE", `{"error":"method not allowed"}`},
		{"nothing allowed", "PATCH", pool, "", "", 405, asJSON, `{"error":"method not allowed"}`},
		{"preflight with a body", "OPTIONS", "/v1/stats", "Access-Control-Request-Method: GET", "", 204, asJSON, "{}"},
	} {
		t.Run(c.name, func(t *testing.T) {
			if err := load(t).check(c.exchange()); err == nil {
				t.Error("taken for right")
			}
		})
	}
}

// watched is a testing.TB that records whether it has failed.
type watched struct {
	testing.TB
	failed bool
}

func (w *watched) Helper()               {}
func (w *watched) Errorf(string, ...any) { w.failed = true }

func TestTransport(t *testing.T) {
	srv := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if body, err := io.ReadAll(r.Body); err != nil || string(body) != `{"count":1}` {
			t.Errorf("asked %s, %v", body, err)
		}
		w.Header().Set("Content-Type", "application/json")
		w.Header().Set("X-Request-Id", "mine-1")
		if r.URL.RawQuery == "broken" {
			w.Header().Set("Content-Length", "1000")
		}
		if r.URL.RawQuery != "" {
			w.WriteHeader(http.StatusAccepted)
		}
		io.WriteString(w, state)
	}))
	defer srv.Close()
	for query, c := range map[string]struct{ failed, broken bool }{
		"":       {},
		"wrong":  {failed: true},
		"broken": {broken: true},
	} {
		t.Run("?"+query, func(t *testing.T) {
			seen := &watched{TB: t}
			client := &http.Client{Transport: Transport(seen, &http.Transport{})}
			defer client.CloseIdleConnections()
			r, err := http.NewRequestWithContext(t.Context(), "PUT", srv.URL+pool+"?"+query, strings.NewReader(`{"count":1}`))
			kvslotstest.Must(t, err)
			answer, err := client.Do(r)
			kvslotstest.Must(t, err)
			defer answer.Body.Close()
			body, err := io.ReadAll(answer.Body)
			if (err != nil) != c.broken || string(body) != state {
				t.Errorf("got %s, %v", body, err)
			}
			if seen.failed != c.failed {
				t.Errorf("failed: %v", seen.failed)
			}
		})
	}
}
