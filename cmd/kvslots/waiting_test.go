package main

import (
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"
)

// A try ends soon after the wait that it is part of, whatever the server does.
func TestWaitBoundsItsTries(t *testing.T) {
	for _, c := range []struct{ wait, most time.Duration }{{2 * time.Second, 7 * time.Second}, {0, 0}} {
		ctx, cancel := newWaiting(leaseTerms{ttl: time.Minute, wait: c.wait}, io.Discard).bounded(t.Context())
		deadline, bounded := ctx.Deadline()
		if bounded != (c.most > 0) || bounded && time.Until(deadline) > c.most {
			t.Errorf("--wait %s: a try until %s, %v", c.wait, deadline, bounded)
		}
		cancel()
	}
}

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
