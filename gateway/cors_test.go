package gateway

import (
	"strings"
	"testing"
)

const page = "https://app.example.com"

func newCORSGateway(origins ...string) *Gateway {
	return newGuardedGateway(func(cfg *Config) {
		cfg.CORSOrigins = origins
		cfg.AuthToken, cfg.RateLimit, cfg.RateBurst = token, 0.001, 1
	})
}

func TestPreflight(t *testing.T) {
	for _, c := range []struct {
		name    string
		origins []string
		headers []string
		code    int
		allowed string // origin
	}{
		{"of the page", []string{page}, []string{"Origin: " + page, "Access-Control-Request-Method: DELETE"}, 204, page},
		{"of one of two", []string{"http://localhost:3000", page}, []string{"Origin: " + page, "Access-Control-Request-Method: PUT"}, 204, page},
		{"of any", []string{"*"}, []string{"Origin: " + page, "Access-Control-Request-Method: POST"}, 204, "*"},
		{"with headers", []string{page}, []string{"Origin: " + page, "Access-Control-Request-Method: POST",
			"Access-Control-Request-Headers: authorization,content-type,x-dflockd-session"}, 204, page},
		{"with another header", []string{page}, []string{"Origin: " + page, "Access-Control-Request-Method: POST",
			"Access-Control-Request-Headers: x-other"}, 204, ""},
		{"with another method", []string{page}, []string{"Origin: " + page, "Access-Control-Request-Method: PATCH"}, 204, ""},
		{"of another page", []string{page}, []string{"Origin: https://evil.example.com", "Access-Control-Request-Method: GET"}, 204, ""},
		{"of a page below", []string{page}, []string{"Origin: https://x.app.example.com", "Access-Control-Request-Method: GET"}, 204, ""},
		{"without an origin", []string{page}, []string{"Access-Control-Request-Method: GET"}, 204, ""},
		{"no preflight", []string{page}, []string{"Origin: " + page}, 401, page},
		{"nobody allowed", nil, []string{"Origin: " + page, "Access-Control-Request-Method: GET"}, 401, ""},
	} {
		t.Run(c.name, func(t *testing.T) {
			answer := ask(newCORSGateway(c.origins...), "OPTIONS", "/v1/locks/k", c.headers...)
			if got := answer.Header().Get("Access-Control-Allow-Origin"); answer.Code != c.code || got != c.allowed {
				t.Errorf("got %d, origin %q; want %d, %q", answer.Code, got, c.code, c.allowed)
			}
			if c.code == 204 && answer.Body.Len() != 0 {
				t.Errorf("a body: %s", answer.Body)
			}
		})
	}
}

// A page has to be able to read why it was refused.
func TestPagesReadAnswers(t *testing.T) {
	for _, c := range []struct {
		origin, authorization string
		codes                 []int // of one request after the other
		allowed               string
	}{
		{page, "Bearer " + token, []int{200, 429}, page},
		{page, "", []int{401, 429}, page},
		{"https://evil.example.com", "Bearer " + token, []int{200}, ""},
		{"", "Bearer " + token, []int{200}, ""},
	} {
		g := newCORSGateway(page)
		for _, code := range c.codes {
			answer := ask(g, "GET", "/v1/locks/k", "Origin: "+c.origin, "Authorization: "+c.authorization)
			header := answer.Header()
			if got := header.Get("Access-Control-Allow-Origin"); answer.Code != code || got != c.allowed {
				t.Errorf("from %q: got %d, origin %q; want %d, %q", c.origin, answer.Code, got, code, c.allowed)
			}
			if c.allowed != "" && !strings.Contains(header.Get("Access-Control-Expose-Headers"), "Retry-After") {
				t.Errorf("exposed: %q", header.Get("Access-Control-Expose-Headers"))
			}
			if header.Get("Vary") != "Origin" {
				t.Errorf("Vary %q", header.Get("Vary"))
			}
		}
	}
}

// Preflights cost nothing: they are not what the limit is for.
func TestPreflightsAreNotLimited(t *testing.T) {
	g := newCORSGateway(page)
	for range 10 {
		if got := ask(g, "OPTIONS", "/t/1", "Origin: "+page, "Access-Control-Request-Method: GET").Code; got != 204 {
			t.Fatal(got)
		}
	}
}

func TestNoCORS(t *testing.T) {
	g := newGuardedGateway(func(*Config) {})
	answer := ask(g, "GET", "/t/1", "Origin: "+page)
	if answer.Code != 200 || answer.Header().Get("Access-Control-Allow-Origin") != "" || answer.Header().Get("Vary") != "" {
		t.Errorf("%d %v", answer.Code, answer.Header())
	}
	if got := ask(g, "OPTIONS", "/t/1", "Origin: "+page, "Access-Control-Request-Method: GET").Code; got != 405 {
		t.Errorf("a preflight is answered %d", got)
	}
}
