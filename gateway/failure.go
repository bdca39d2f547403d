package gateway

import (
	"net/http"
	"strings"

	"github.com/go-chi/chi/v5"

	"github.com/kvslots/kvslots/gateway/internal/jsonhttp"
	"github.com/kvslots/kvslots/kvslots/wire"
)

// ErrorRenderer is a Dialect with its own format of the errors that the gateway itself
// answers, before it calls a handler of the dialect, or after a handler has panicked. On
// all other paths these errors are {"error": text}.
type ErrorRenderer interface {
	// Prefix returns the path, such as "/v1", at and below which RenderError is used.
	Prefix() string

	// RenderError answers with an error: its status, the code for programs, and the
	// text for people. Neither contains parts of the request. The headers of the error
	// (Allow, Kvslots-Error, Retry-After, WWW-Authenticate) are already set.
	RenderError(w http.ResponseWriter, status int, code, text string)
}

// fail answers with a refusal by the gateway itself, in the format of the path's dialect,
// and counts it.
func (g *Gateway) fail(w http.ResponseWriter, r *http.Request, status wire.Status) {
	g.metrics.failures.WithLabelValues(status.Name).Inc()
	path := routedPath(r)
	w.Header().Set(wire.ErrorHeader, status.Name)
	for _, dialect := range g.opened.Load().Dialects {
		if renderer, ok := dialect.(ErrorRenderer); ok && isBelow(path, renderer.Prefix()) {
			renderer.RenderError(w, status.Code, status.Name, status.Text)
			return
		}
	}
	_ = jsonhttp.Answer(w, status.Code, status.Failure())
}

func isBelow(path, prefix string) bool {
	rest, ok := strings.CutPrefix(path, prefix)
	return ok && (rest == "" || rest[0] == '/')
}

// routedPath returns the path by which chi routes a request: the encoded path if it differs
// from the default encoding, and otherwise the decoded one. Decisions about a path must
// use it.
func routedPath(r *http.Request) string {
	if r.URL.RawPath != "" {
		return r.URL.RawPath
	}
	return r.URL.Path
}

var methods = []string{
	http.MethodGet, http.MethodHead, http.MethodPost, http.MethodPut,
	http.MethodPatch, http.MethodDelete, http.MethodOptions,
}

func (g *Gateway) notFound(w http.ResponseWriter, r *http.Request) {
	g.fail(w, r, wire.NotFound)
}

// methodNotAllowed answers 405 with the methods of the path in Allow, or 404 for a path
// without a route: chi calls it for every path if the method is unknown.
func (g *Gateway) methodNotAllowed(w http.ResponseWriter, r *http.Request) {
	allowed := allowedMethods(r)
	if len(allowed) == 0 {
		g.notFound(w, r)
		return
	}
	w.Header().Set("Allow", strings.Join(allowed, ", "))
	g.fail(w, r, wire.MethodNotAllowed)
}

func allowedMethods(r *http.Request) []string {
	path, routes := routedPath(r), chi.RouteContext(r.Context()).Routes
	var allowed []string
	for _, method := range methods {
		if routes.Match(chi.NewRouteContext(), method, path) {
			allowed = append(allowed, method)
		}
	}
	return allowed
}
