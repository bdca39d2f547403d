package main

import (
	"net/http"
	"slices"
	"testing"

	"github.com/go-chi/chi/v5"

	"github.com/kvslots/kvslots/gateway/forrst"
	"github.com/kvslots/kvslots/gateway/openapitest"
	"github.com/kvslots/kvslots/kvslots/logtest"
)

// The OpenAPI document contains exactly the routes that a gateway serves by default.
func TestRoutesAreDescribed(t *testing.T) {
	gw := newGateway(nil, forrst.New(nil, forrst.Config{}), nil, newShared(&backend{}, &access{}, defaultSettings()), "always", defaultSettings(), logtest.Logger())
	var served []string
	err := chi.Walk(gw.Handler().(chi.Routes), func(method, route string, _ http.Handler, _ ...func(http.Handler) http.Handler) error {
		served = append(served, method+" "+route)
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
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
