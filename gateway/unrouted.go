package gateway

import (
	"net/http"
	"strings"

	"github.com/go-chi/chi/v5"
)

// methods are those that may be routed, in the order in which Allow names
// them.
var methods = []string{
	http.MethodGet, http.MethodHead, http.MethodPost, http.MethodPut,
	http.MethodPatch, http.MethodDelete, http.MethodOptions,
}

func (g *Gateway) notFound(w http.ResponseWriter, r *http.Request) {
	g.fail(w, r, failNotFound)
}

// methodNotAllowed names the methods that the path does have. chi does so too,
// but not with a body of ours; and what it does not know as a method it sends
// here whatever the path.
func (g *Gateway) methodNotAllowed(w http.ResponseWriter, r *http.Request) {
	allowed := allowedMethods(r)
	if len(allowed) == 0 {
		g.notFound(w, r)
		return
	}
	w.Header().Set("Allow", strings.Join(allowed, ", "))
	g.fail(w, r, failMethodNotAllowed)
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
