package gateway

import (
	"net/http"
	"strings"

	"github.com/go-chi/chi/v5"

	"github.com/kvslots/kvslots/kvslots/wire"
)

// methods are the methods of routes, in their order in the header Allow.
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
