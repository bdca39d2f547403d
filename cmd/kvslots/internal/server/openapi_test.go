package server

import (
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"testing"

	"github.com/go-chi/chi/v5"

	"github.com/kvslots/kvslots/gateway"
	"github.com/kvslots/kvslots/gateway/openapitest"
	"github.com/kvslots/kvslots/kvslots/kvslotstest"
)

// The OpenAPI document contains exactly the routes that a gateway serves by default.
func TestRoutesAreDescribed(t *testing.T) {
	gw := newGateway(storeless(t))
	var served []string
	err := chi.Walk(gw.Handler().(chi.Routes), func(method, route string, _ http.Handler, _ ...func(http.Handler) http.Handler) error {
		served = append(served, method+" "+route)
		return nil
	})
	kvslotstest.Must(t, err)
	described := openapitest.Operations(t)
	for _, route := range served {
		if !slices.Contains(described, route) {
			t.Errorf("%s is served, but not in gateway/openapi.json", route)
		}
	}
	for _, operation := range described {
		if !slices.Contains(served, operation) {
			t.Errorf("%s is in gateway/openapi.json, but not served", operation)
		}
	}
}

// The gateway itself may refuse every request, for its Host, its rate or its token.
func TestRefusalsAreDescribed(t *testing.T) {
	refused, store := map[int]int{}, kvslotstest.New(t) // which all answers name
	for _, r := range openapitest.Requests(t) {
		s := storeless(t, "--http-allowed-hosts", "slots.example.com", "--http-rate-limit", "0.001", "--auth-token", "t")
		s.store = store
		gw := newGateway(s)
		for _, host := range []string{"rebound.example.com", "rebound.example.com", "rebound.example.com", "slots.example.com", "slots.example.com", "slots.example.com"} {
			open := r.URL.Path == "/" || r.URL.Path == "/health" || r.URL.Path == "/ready" || r.URL.Path == "/v1/openapi.json" || strings.HasPrefix(r.URL.Path, gateway.PagePrefix)
			if open && host == "slots.example.com" {
				continue // is answered
			}
			r.Host = host
			answer := httptest.NewRecorder()
			gw.Handler().ServeHTTP(answer, r)
			openapitest.Check(t, r, "", answer.Result())
			refused[answer.Code]++
		}
	}
	if n := len(openapitest.Operations(t)); refused[403] != 2*n || refused[401] != 2*(n-10) || refused[429] != n+n-10 {
		t.Errorf("of %d operations: %v", n, refused)
	}
}

func newGateway(s *server) *gateway.Gateway {
	gw := gateway.New(s.httpConfig())
	gw.Open(s.opened(nil))
	return gw
}
