package gateway

import (
	"net/http"
	"slices"

	"github.com/kvslots/kvslots/kvslots/wire"
)

var (
	// probes are the paths that the operator's tools read to supervise the process.
	probes = []string{"/health", "/ready"}

	// tokenless are the paths that are read without a token: those, and the
	// document that says how to send one.
	tokenless = append([]string{"/v1/openapi.json"}, probes...)
)

// reads reports whether a request is for one of the paths and changes nothing.
func reads(r *http.Request, paths []string) bool {
	return (r.Method == http.MethodGet || r.Method == http.MethodHead) && slices.Contains(paths, routedPath(r))
}

// authenticate refuses requests without one of Config.Tokens (README.md, "Access").
func (g *Gateway) authenticate(next http.Handler) http.Handler {
	if !g.cfg.Tokens.Required() {
		return next
	}
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if !g.cfg.Tokens.Accept(r.Header.Get(wire.AuthorizationHeader)) && !reads(r, tokenless) {
			w.Header().Set("WWW-Authenticate", "Bearer")
			g.fail(w, r, wire.Unauthorized)
			return
		}
		next.ServeHTTP(w, r)
	})
}
