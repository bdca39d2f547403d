package gateway

import (
	"net/http"
	"strings"

	"github.com/go-chi/chi/v5"

	"github.com/kvslots/kvslots/gateway/internal/jsonhttp"
)

// methods are those that may be routed, in the order in which Allow names
// them.
var methods = []string{
	http.MethodGet, http.MethodHead, http.MethodPost, http.MethodPut,
	http.MethodPatch, http.MethodDelete, http.MethodOptions,
}

func notFound(w http.ResponseWriter, _ *http.Request) {
	_ = jsonhttp.Fail(w, http.StatusNotFound, "not found")
}

// methodNotAllowed names the methods that the path does have. chi does so too,
// but not with a body of ours; and what it does not know as a method it sends
// here whatever the path.
func methodNotAllowed(w http.ResponseWriter, r *http.Request) {
	allowed := allowedMethods(r)
	if len(allowed) == 0 {
		notFound(w, r)
		return
	}
	w.Header().Set("Allow", strings.Join(allowed, ", "))
	_ = jsonhttp.Fail(w, http.StatusMethodNotAllowed, "method not allowed")
}

func allowedMethods(r *http.Request) []string {
	path := r.URL.RawPath
	if path == "" {
		path = r.URL.Path
	}
	routes := chi.RouteContext(r.Context()).Routes
	var allowed []string
	for _, method := range methods {
		if routes.Match(chi.NewRouteContext(), method, path) {
			allowed = append(allowed, method)
		}
	}
	return allowed
}
