package gateway

import (
	"context"
	"encoding/json"
	"errors"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/kvslots/kvslots/gateway/openapitest"
	"github.com/kvslots/kvslots/kvslots/kvslotstest"
	"github.com/kvslots/kvslots/kvslots/wire"
)

// askChecked is like get, and checks the answer against the OpenAPI document.
func askChecked(t *testing.T, g *Gateway, method, path string) *httptest.ResponseRecorder {
	t.Helper()
	answer := get(g, method, path)
	openapitest.Check(t, httptest.NewRequest(method, path, nil), "", answer.Result())
	return answer
}

func TestOwnRoutesAreAsDescribed(t *testing.T) {
	stopping, _ := newTestGateway(storeState{})
	stopping.cfg.Lending.Stop()
	ready, _ := newTestGateway(storeState{})
	broken, _ := newTestGateway(storeState{errors.New("gone")})
	for _, g := range []*Gateway{ready, broken, stopping} {
		for _, path := range []string{"/", "/health", "/ready", "/metrics", "/v1/openapi.json", "/nothing", "/v1/nothing"} {
			for _, method := range []string{"GET", "HEAD", "POST", "BREW"} {
				askChecked(t, g, method, path)
			}
		}
	}
}

// GET / says which API to choose, in the form that the client accepts.
func TestGreeting(t *testing.T) {
	g := New(Config{Store: storeState{}, Version: "v1.2.3", Tokens: NewTokens("secret")})
	for accept, want := range map[string]string{
		"":                                "text/plain; charset=utf-8",
		"*/*":                             "text/plain; charset=utf-8",
		"text/html, */*;q=0.8":            "text/plain; charset=utf-8",
		"application/json":                "application/json",
		"application/json; charset=utf-8": "application/json",
		"text/html, application/json":     "application/json",
	} {
		r := httptest.NewRequest("GET", "/", nil)
		r.Header.Set("Accept", accept)
		answer := httptest.NewRecorder()
		g.Handler().ServeHTTP(answer, r)
		openapitest.Check(t, r, "", answer.Result())
		if kind := answer.Header().Get("Content-Type"); answer.Code != 200 || kind != want {
			t.Errorf("Accept %q: %d, %q, want %q", accept, answer.Code, kind, want)
		}
		for _, text := range []string{"v1.2.3", "/l", "/v1", "/rpc", "NATS", "/v1/openapi.json"} {
			if !strings.Contains(answer.Body.String(), text) {
				t.Errorf("Accept %q: no %s in %s", accept, text, answer.Body)
			}
		}
		if accept == "" {
			if lines := strings.Count(answer.Body.String(), "\n"); lines != 6 {
				t.Errorf("%d lines:\n%s", lines, answer.Body)
			}
		}
	}
}

// The document contains the version of the build, whatever its characters.
func TestDescription(t *testing.T) {
	for _, version := range []string{"", "v1.2.3", `a"b\c<d>`} {
		g := New(Config{Store: storeState{}, Version: version})
		answer := askChecked(t, g, "GET", "/v1/openapi.json")
		var doc struct {
			Info struct{ Title, Version string }
		}
		kvslotstest.Must(t, json.Unmarshal(answer.Body.Bytes(), &doc))
		if answer.Code != 200 || doc.Info.Title != "kvslots" || doc.Info.Version != version {
			t.Errorf("%d, version %q of %q, want %q", answer.Code, doc.Info.Version, doc.Info.Title, version)
		}
		if kind := answer.Header().Get("Content-Type"); kind != "application/json" {
			t.Errorf("Content-Type %q", kind)
		}
	}
}

// A connection may be refused, so every operation may be answered so, except probes.
func TestRefusedConnectionsAreAsDescribed(t *testing.T) {
	g := newGuardedGateway(func(*Config) {})
	for _, r := range openapitest.Requests(t) {
		for _, why := range []*wire.Status{&wire.MaxConnections, &wire.MaxConnectionsPerIP} {
			answer := httptest.NewRecorder()
			g.Handler().ServeHTTP(answer, r.WithContext(context.WithValue(t.Context(), countedKey{}, &countedConn{refusal: why})))
			if refused := answer.Header().Get("Kvslots-Error") == why.Name; refused == reads(r, probes) {
				t.Errorf("%s %s: %d", r.Method, r.URL, answer.Code)
			}
			openapitest.Check(t, r, "", answer.Result())
		}
	}
}
