package gateway

import (
	"net/http"
	"strings"

	"github.com/kvslots/kvslots/gateway/internal/jsonhttp"
	"github.com/kvslots/kvslots/kvslots/wire"
)

// ErrorRenderer is a Dialect with a form of its own for the errors that the
// gateway finds before a handler of the dialect is reached, or after one has
// panicked. Those of all other paths are {"error": text}.
type ErrorRenderer interface {
	// Prefix is the path, such as "/v1", at which and below which errors are
	// the dialect's to render.
	Prefix() string

	// RenderError answers with a failure: its status, the code that machines
	// read, and the text for people. Neither holds anything of the request.
	// The headers that go with the status (Allow, Retry-After,
	// WWW-Authenticate) are set already.
	RenderError(w http.ResponseWriter, status int, code, text string)
}

// failure is an error of the gateway's own.
type failure struct {
	status     int
	code, text string
}

var (
	failUnauthorized     = failure{http.StatusUnauthorized, "unauthorized", "unauthorized"}
	failNotFound         = failure{http.StatusNotFound, "not_found", "not found"}
	failMethodNotAllowed = failure{http.StatusMethodNotAllowed, "method_not_allowed", "method not allowed"}
	failRateLimited      = failure{http.StatusTooManyRequests, "rate_limited", "rate limited"}
	failInternal         = failure{wire.Internal.Code, wire.Internal.Name, wire.Internal.Text}
)

// fail answers with f, in the form of the dialect that the path belongs to.
func (g *Gateway) fail(w http.ResponseWriter, r *http.Request, f failure) {
	path := routedPath(r)
	for _, dialect := range g.cfg.Dialects {
		if renderer, ok := dialect.(ErrorRenderer); ok && isBelow(path, renderer.Prefix()) {
			renderer.RenderError(w, f.status, f.code, f.text)
			return
		}
	}
	_ = jsonhttp.Fail(w, f.status, f.text)
}

func isBelow(path, prefix string) bool {
	rest, ok := strings.CutPrefix(path, prefix)
	return ok && (rest == "" || rest[0] == '/')
}

// routedPath is what chi looks up: the path as it was sent, if that differs
// from the usual way to write it. Whoever judges by a path must judge by this one.
func routedPath(r *http.Request) string {
	if r.URL.RawPath != "" {
		return r.URL.RawPath
	}
	return r.URL.Path
}
