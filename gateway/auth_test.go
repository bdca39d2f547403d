package gateway

import (
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/kvslots/kvslots/kvslots/logtest"
)

const token = "hunter2-and-more"

func TestAuthenticate(t *testing.T) {
	g := newGuardedGateway(func(cfg *Config) { cfg.Tokens = NewTokens(token) })
	for _, c := range []struct {
		name          string
		authorization []string
		code          int
	}{
		{"none", nil, 401},
		{"empty", []string{""}, 401},
		{"token", []string{"Bearer " + token}, 200},
		{"scheme in lower case", []string{"bearer " + token}, 200},
		{"scheme in upper case", []string{"BEARER " + token}, 200},
		{"more spaces", []string{"Bearer   " + token}, 200},
		{"scheme alone", []string{"Bearer"}, 401},
		{"scheme and a space", []string{"Bearer "}, 401},
		{"token alone", []string{token}, 401},
		{"another scheme", []string{"Basic " + token}, 401},
		{"another token", []string{"Bearer hunter3-and-more"}, 401},
		{"beginning of the token", []string{"Bearer hunter2"}, 401},
		{"more than the token", []string{"Bearer " + token + "x"}, 401},
		{"upper case", []string{"Bearer " + strings.ToUpper(token)}, 401},
		{"two, the second is right", []string{"Bearer x", "Bearer " + token}, 401},
	} {
		t.Run(c.name, func(t *testing.T) {
			var headers []string
			for _, value := range c.authorization {
				headers = append(headers, "Authorization: "+value)
			}
			answer := ask(g, "GET", "/t/1", headers...)
			if answer.Code != c.code {
				t.Fatalf("got %d %s, want %d", answer.Code, answer.Body, c.code)
			}
			if c.code == 200 {
				return
			}
			if answer.Body.String() != `{"error":"unauthorized"}` || answer.Header().Get("WWW-Authenticate") != "Bearer" {
				t.Errorf("got %s, WWW-Authenticate %q", answer.Body, answer.Header().Get("WWW-Authenticate"))
			}
		})
	}
}

func TestWhatNeedsAToken(t *testing.T) {
	g := newGuardedGateway(func(cfg *Config) { cfg.Tokens = NewTokens(token) })
	for _, c := range []struct {
		method, path string
		without      int // status without the token
		with         int
	}{
		{"GET", "/health", 200, 200},
		{"HEAD", "/health", 200, 200},
		{"GET", "/ready", 200, 200},
		{"HEAD", "/ready", 200, 200},
		{"GET", "/v1/openapi.json", 200, 200},
		{"HEAD", "/v1/openapi.json", 200, 200},
		{"GET", "/", 200, 200},
		{"HEAD", "/", 200, 200},
		{"POST", "/", 401, 405},
		{"GET", "//", 401, 404},
		{"POST", "/health", 401, 405},
		{"POST", "/v1/openapi.json", 401, 200},
		{"OPTIONS", "/health", 401, 405},
		{"GET", "/metrics", 401, 200},
		{"GET", "/t/1", 401, 200},
		{"POST", "/t/1", 401, 200},
		{"GET", "/v1/locks/k", 401, 200},
		{"GET", "/nothing", 401, 404},
		{"GET", "/health/", 401, 404},
		{"GET", "//health", 401, 404},
		{"GET", "/hea%6cth", 401, 404},
		{"GET", "/v1/locks/../openapi.json", 401, 404},
		{"DELETE", "/t/1", 401, 405},
		{"OPTIONS", "*", 401, 404},
		{"BREW", "/nothing", 401, 404},
	} {
		t.Run(c.method+" "+c.path, func(t *testing.T) {
			if got := ask(g, c.method, c.path).Code; got != c.without {
				t.Errorf("without a token: %d, want %d", got, c.without)
			}
			if got := ask(g, c.method, c.path, "Authorization: Bearer "+token).Code; got != c.with {
				t.Errorf("with the token: %d, want %d", got, c.with)
			}
		})
	}
}

func TestNoTokenIsAskedFor(t *testing.T) {
	g := newGuardedGateway(func(*Config) {})
	for _, authorization := range []string{"", "Bearer ", "Bearer x", "Basic x"} {
		if got := ask(g, "GET", "/t/1", "Authorization: "+authorization).Code; got != 200 {
			t.Errorf("%q: %d", authorization, got)
		}
	}
}

// The dialect renders refusals, and logs and metrics include them.
func TestRefusalsAreSeen(t *testing.T) {
	var lines logtest.Log
	g := newGuardedGateway(func(cfg *Config) {
		cfg.Tokens = NewTokens(token)
		cfg.Logger = lines.Logger()
	})
	if answer := ask(g, "GET", "/v1/locks/k"); answer.Code != 401 || answer.Body.String() != "unauthorized: unauthorized" {
		t.Errorf("got %d %s", answer.Code, answer.Body)
	}
	ask(g, "GET", "/t/9f1c2e7a", "Authorization: Bearer 9f1c2e7a")
	if want := `{"level":"debug","message":"request","method":"GET","route":"none","status":401,`; strings.Count(lines.String(), want) != 2 {
		t.Errorf("not logged twice: %s\n%s", want, &lines)
	}
	metrics := ask(g, "GET", "/metrics", "Authorization: Bearer "+token).Body.String()
	if want := `kvslots_http_request_duration_seconds_count{method="GET",route="none",status="401"} 2`; !strings.Contains(metrics, want) {
		t.Errorf("no %s in the metrics", want)
	}
	for _, secret := range []string{token, "9f1c2e7a"} {
		if strings.Contains(lines.String()+metrics, secret) {
			t.Errorf("%s is in the logs or metrics:\n%s", secret, &lines)
		}
	}
}

// A client without the token must not hold a connection with a body either.
func TestRefusedBodyHasADeadline(t *testing.T) {
	g := newGuardedGateway(func(cfg *Config) { cfg.Tokens = NewTokens(token) })
	deadlines := &deadlineWriter{ResponseRecorder: httptest.NewRecorder()}
	g.Handler().ServeHTTP(deadlines, httptest.NewRequest(http.MethodPost, "/t/1", strings.NewReader("{")))
	if deadlines.Code != 401 || deadlines.reading.IsZero() {
		t.Errorf("status %d, deadline %s", deadlines.Code, deadlines.reading)
	}
}
