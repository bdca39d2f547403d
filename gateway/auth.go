package gateway

import (
	"net/http"
	"slices"
	"strings"

	"github.com/kvslots/kvslots/kvslots/wire"
)

var (
	// probes are the paths that supervisors of the process read.
	probes = []string{"/health", "/ready"}

	// tokenless are the paths that clients may read without a token: probes, the document
	// that describes how to send a token, and the page that names the document.
	tokenless = append([]string{"/", "/v1/openapi.json"}, probes...)
)

// reads reports whether a request is a GET or HEAD of one of the paths.
func reads(r *http.Request, paths []string) bool {
	return (r.Method == http.MethodGet || r.Method == http.MethodHead) && slices.Contains(paths, routedPath(r))
}

// isPageFile reports whether a request reads a file of the page for browsers, which load such
// files without the token.
func isPageFile(r *http.Request) bool {
	return (r.Method == http.MethodGet || r.Method == http.MethodHead) && strings.HasPrefix(routedPath(r), PagePrefix)
}

// authenticate refuses requests that have none of Config.Tokens, and those of readers that are
// no GET or HEAD, of which none changes anything (README.md, "Access").
func (g *Gateway) authenticate(w http.ResponseWriter, r *http.Request) bool {
	access := g.cfg.Tokens.Access(r.Header.Get(wire.AuthorizationHeader))
	switch {
	case access == wire.AccessFull, reads(r, tokenless), isPageFile(r):
		return true
	case access == wire.AccessRead && (r.Method == http.MethodGet || r.Method == http.MethodHead):
		return true
	case access == wire.AccessRead:
		g.fail(w, r, wire.ReadOnly)
		return false
	}
	w.Header().Set("WWW-Authenticate", "Bearer")
	g.fail(w, r, wire.Unauthorized)
	return false
}
