package main

import (
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
)

// The error says that the server is not a gateway.
func TestHintsAtTheServer(t *testing.T) {
	for name, handler := range map[string]http.HandlerFunc{
		"closed": func(http.ResponseWriter, *http.Request) { panic(http.ErrAbortHandler) },
		"redirect": func(w http.ResponseWriter, r *http.Request) {
			http.Redirect(w, r, "https://example.com/", http.StatusFound)
		},
	} {
		server := httptest.NewServer(handler)
		code, _, stderr := call(t, noEnv, "inspect", pool, "--server", server.URL)
		if code != exitFailed || !strings.Contains(stderr, "; is --server right?") {
			t.Errorf("%s: exit code %d, %s", name, code, stderr)
		}
		server.Close()
	}
}
