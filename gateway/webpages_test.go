package gateway

import (
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/kvslots/kvslots/kvslots/logtest"
)

const page = "https://app.example.com"

func newCORSGateway(origins ...string) *Gateway {
	return newGuardedGateway(func(cfg *Config) {
		cfg.CORSOrigins = origins
		cfg.Tokens, cfg.RateLimit, cfg.RateBurst = NewTokens(token), 0.001, 1
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
			"Access-Control-Request-Headers: authorization,content-type,kvslots-pool,x-dflockd-session"}, 204, page},
		{"with another header", []string{page}, []string{"Origin: " + page, "Access-Control-Request-Method: POST",
			"Access-Control-Request-Headers: x-other"}, 204, ""},
		{"with another method", []string{page}, []string{"Origin: " + page, "Access-Control-Request-Method: PATCH"}, 204, ""},
		{"of another page", []string{page}, []string{"Origin: https://evil.example.com", "Access-Control-Request-Method: GET"}, 204, ""},
		{"of a page below", []string{page}, []string{"Origin: https://x.app.example.com", "Access-Control-Request-Method: GET"}, 204, ""},
		{"without an origin", []string{page}, []string{"Access-Control-Request-Method: GET"}, 204, ""},
		{"no preflight", []string{page}, []string{"Origin: " + page}, 401, page},
		{"no origin allowed", nil, []string{"Origin: " + page, "Access-Control-Request-Method: GET"}, 401, ""},
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

// The log says once how the origin of a page is allowed, since the page cannot know.
func TestRefusedOriginsAreTold(t *testing.T) {
	for name, tokens := range map[string]*Tokens{"without a token": nil, "with a token": NewTokens(token)} {
		var log logtest.Log
		g := newGuardedGateway(func(cfg *Config) { cfg.Tokens, cfg.Logger = tokens, log.Logger() })
		ask(g, "GET", "/v1/locks/k")
		for range 2 {
			ask(g, "OPTIONS", "/v1/locks/k", "Origin: "+page, "Access-Control-Request-Method: DELETE")
		}
		if got := strings.Count(log.String(), "--http-cors-allowed-origins"); got != 1 || !strings.Contains(log.String(), page) {
			t.Errorf("%s: logged %d times: %s", name, got, log.String())
		}
	}
}

// A page can read the reason of a refusal.
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

// No preflight request is refused for its rate.
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
	answer := ask(g, "GET", "/t/1", "Origin: http://example.com")
	if answer.Code != 200 || answer.Header().Get("Access-Control-Allow-Origin") != "" || answer.Header().Get("Vary") != "" {
		t.Errorf("%d %v", answer.Code, answer.Header())
	}
	if got := ask(g, "OPTIONS", "/t/1", "Origin: "+page, "Access-Control-Request-Method: GET").Code; got != 405 {
		t.Errorf("a preflight is answered %d", got)
	}
}

// A page that reaches the gateway by DNS rebinding names itself in Host.
func TestHosts(t *testing.T) {
	named := newGuardedGateway(func(cfg *Config) { cfg.Hosts = []string{"slots.example.com"} })
	local := newGuardedGateway(func(cfg *Config) { cfg.Hosts = []string{} })
	open := newGuardedGateway(func(*Config) {})
	for _, c := range []struct {
		host        string
		local, with bool // allowed without and with a configured name
	}{
		{"127.0.0.1:8080", true, true},
		{"127.0.0.1", true, true},
		{"[::1]:8080", true, true},
		{"[::1]", true, true},
		{"192.0.2.1:80", true, true},
		{"localhost:8080", true, true},
		{"LOCALHOST", true, true},
		{"localhost.:8080", true, true},
		{"", true, true},
		{"slots.example.com", false, true},
		{"Slots.Example.com.:8080", false, true},
		{"evil.example.com:8080", false, false},
		{"evil.slots.example.com", false, false},
		{"localhost.evil.example.com", false, false},
		{"127.0.0.1.evil.example.com", false, false},
		{"127.1", false, false},
		{"2130706433", false, false},
	} {
		for g, allowed := range map[*Gateway]bool{local: c.local, named: c.with, open: true} {
			for path, refused := range map[string]string{
				"/t/1": `{"error":"the gateway does not answer to this Host"}`, "/health": "",
				"/v1/locks/k": "forbidden: the gateway does not answer to this Host",
			} {
				r := httptest.NewRequest("GET", path, nil)
				r.Host = c.host
				answer := httptest.NewRecorder()
				g.Handler().ServeHTTP(answer, r)
				if got := answer.Code == 200; got != allowed || !allowed && answer.Code != 403 {
					t.Errorf("Host %q, %s: %d", c.host, path, answer.Code)
				}
				if !allowed && (refused != "" && answer.Body.String() != refused || answer.Header().Get("Kvslots-Error") != "forbidden") {
					t.Errorf("Host %q, %s: %s", c.host, path, answer.Body)
				}
			}
		}
	}
}

// A browser sends simple requests of any page, and withholds only the answer from the page.
func TestRequestsOfPages(t *testing.T) {
	for _, c := range []struct {
		name    string
		change  func(cfg *Config)
		headers []string
		code    int // of POST
	}{
		{"a program", nil, nil, 200},
		{"the user", nil, []string{"Sec-Fetch-Site: none"}, 200},
		{"the gateway's own page", nil, []string{"Sec-Fetch-Site: same-origin", "Origin: http://example.com"}, 200},
		{"another site", nil, []string{"Sec-Fetch-Site: cross-site", "Origin: " + page}, 403},
		{"another port", nil, []string{"Sec-Fetch-Site: same-site", "Origin: http://example.com:3000"}, 403},
		{"an old browser", nil, []string{"Origin: " + page}, 403},
		{"an old browser, own page", nil, []string{"Origin: http://example.com"}, 200},
		{"a sandbox", nil, []string{"Origin: null"}, 403},
		{"allowed", func(cfg *Config) { cfg.CORSOrigins = []string{page} }, []string{"Sec-Fetch-Site: cross-site", "Origin: " + page}, 200},
		{"another than is allowed", func(cfg *Config) { cfg.CORSOrigins = []string{page} }, []string{"Sec-Fetch-Site: cross-site", "Origin: https://evil.example.com"}, 403},
		{"any is allowed", func(cfg *Config) { cfg.CORSOrigins = []string{"*"} }, []string{"Sec-Fetch-Site: cross-site", "Origin: " + page}, 200},
		{"a token is required", func(cfg *Config) { cfg.Tokens = NewTokens(token) }, []string{"Sec-Fetch-Site: cross-site", "Origin: " + page}, 401},
		{"with the token", func(cfg *Config) { cfg.Tokens = NewTokens(token) }, []string{"Sec-Fetch-Site: cross-site", "Origin: " + page, "Authorization: Bearer " + token}, 200},
	} {
		t.Run(c.name, func(t *testing.T) {
			g := newGuardedGateway(func(cfg *Config) {
				if c.change != nil {
					c.change(cfg)
				}
			})
			if answer := ask(g, "POST", "/t/1", c.headers...); answer.Code != c.code {
				t.Errorf("got %d %s, want %d", answer.Code, answer.Body, c.code)
			}
			if answer := ask(g, "GET", "/t/1", c.headers...); answer.Code != c.code {
				t.Errorf("a read is answered %d, want %d", answer.Code, c.code)
			}
			toPage := append(c.headers, "Sec-Fetch-Mode: navigate", "Sec-Fetch-Dest: document")
			for path, want := range map[string]int{"/": 200, "/t/1": c.code} {
				if answer := ask(g, "GET", path, toPage...); answer.Code != want {
					t.Errorf("a link to %s is answered %d, want %d", path, answer.Code, want)
				}
			}
		})
	}
}

// Requests of pages have buckets of their own: they are limited, and a page cannot
// use up the bucket of the user in whose browser it is, nor the user that of pages.
func TestRateOfPages(t *testing.T) {
	g := newGuardedGateway(func(cfg *Config) { cfg.Hosts, cfg.RateLimit, cfg.RateBurst = []string{"example.com"}, 0.001, 2 })
	rebound := func() *httptest.ResponseRecorder {
		r := httptest.NewRequest("GET", "/t/1", nil)
		r.Host = "rebound.example.com"
		answer := httptest.NewRecorder()
		g.Handler().ServeHTTP(answer, r)
		return answer
	}
	foreign := func() *httptest.ResponseRecorder { return ask(g, "POST", "/t/1", "Origin: "+page) }
	user := func() *httptest.ResponseRecorder { return ask(g, "GET", "/t/1") }
	for i, c := range []struct {
		send func() *httptest.ResponseRecorder
		code int
	}{{foreign, 403}, {user, 200}, {rebound, 403}, {rebound, 429}, {foreign, 429}, {user, 200}, {user, 429}, {foreign, 429}} {
		answer := c.send()
		if retryAfter := answer.Header().Get("Retry-After"); answer.Code != c.code || (retryAfter != "") != (c.code == 429) {
			t.Errorf("request %d: %d, want %d; Retry-After %q", i, answer.Code, c.code, retryAfter)
		}
	}
	if g.limited.Load() != 4 {
		t.Errorf("%d refusals are counted", g.limited.Load())
	}
}

// What a page of another origin sends takes tokens from the bucket of pages.
func TestRateOfReadingPages(t *testing.T) {
	evil := "Origin: https://evil.example.com"
	for _, c := range []struct {
		name         string
		change       func(cfg *Config)
		method, path string
		headers      []string
		code         int
		usersOwn     bool
	}{
		{"a preflight", nil, "OPTIONS", "/t/1", []string{evil, "Access-Control-Request-Method: GET"}, 405, false},
		{"an image of another site", nil, "GET", "/t/1", []string{"Sec-Fetch-Site: cross-site"}, 403, false},
		{"an image of another port", nil, "GET", "/t/1", []string{"Sec-Fetch-Site: same-site"}, 403, false},
		{"a script", nil, "GET", "/t/1", []string{"Sec-Fetch-Site: cross-site", evil}, 403, false},
		{"a script of an old browser", nil, "GET", "/t/1", []string{evil}, 403, false},
		{"an unknown path", nil, "GET", "/other", []string{evil}, 403, false},
		{"another than is allowed", func(cfg *Config) { cfg.CORSOrigins = []string{page} }, "GET", "/t/1", []string{evil}, 403, false},
		{"an image of an allowed page", func(cfg *Config) { cfg.CORSOrigins = []string{page} }, "GET", "/t/1", []string{"Sec-Fetch-Site: cross-site"}, 403, false},
		{"a guess at the token", func(cfg *Config) { cfg.Tokens = NewTokens(token) }, "POST", "/v1/locks/k", []string{evil}, 401, false},
		{"allowed", func(cfg *Config) { cfg.CORSOrigins = []string{page} }, "GET", "/t/1", []string{"Sec-Fetch-Site: cross-site", "Origin: " + page}, 200, true},
		{"any is allowed", func(cfg *Config) { cfg.CORSOrigins = []string{"*"} }, "GET", "/t/1", []string{"Sec-Fetch-Site: cross-site", evil}, 200, true},
		{"the gateway's own page", nil, "GET", "/t/1", []string{"Sec-Fetch-Site: same-origin"}, 200, true},
		{"the user", nil, "GET", "/t/1", []string{"Sec-Fetch-Site: none"}, 200, true},
	} {
		t.Run(c.name, func(t *testing.T) {
			g := newGuardedGateway(func(cfg *Config) {
				cfg.RateLimit, cfg.RateBurst = 0.001, 2
				if c.change != nil {
					c.change(cfg)
				}
			})
			for _, want := range []int{c.code, c.code, 429} {
				if got := ask(g, c.method, c.path, c.headers...).Code; got != want {
					t.Errorf("got %d, want %d", got, want)
				}
			}
			if limited := ask(g, "GET", "/t/1", "Authorization: Bearer "+token).Code == 429; limited != c.usersOwn {
				t.Errorf("the user is limited: %t", limited)
			}
		})
	}
}
