package gateway

import (
	"crypto/sha256"
	"crypto/subtle"
	"net/http"
	"slices"
	"strings"

	"github.com/kvslots/kvslots/kvslots/wire"
)

var (
	// probes are for the operator of the process.
	probes = []string{"/health", "/ready"}

	// tokenless is for those, too, and for who wants to know how to send a
	// token.
	tokenless = append([]string{"/v1/openapi.json"}, probes...)
)

// reads reports whether a request is for one of the paths and changes nothing.
func reads(r *http.Request, paths []string) bool {
	return (r.Method == http.MethodGet || r.Method == http.MethodHead) && slices.Contains(paths, routedPath(r))
}

// authenticate asks for Config.AuthToken (README.md, "Access").
func (g *Gateway) authenticate(next http.Handler) http.Handler {
	if g.cfg.AuthToken == "" {
		return next
	}
	want := sha256.Sum256([]byte(g.cfg.AuthToken))
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		// Hashes are of one length: the time says nothing about the token's.
		got := sha256.Sum256([]byte(bearerToken(r)))
		if subtle.ConstantTimeCompare(got[:], want[:]) == 0 && !reads(r, tokenless) {
			w.Header().Set("WWW-Authenticate", "Bearer")
			g.fail(w, r, failUnauthorized)
			return
		}
		next.ServeHTTP(w, r)
	})
}

// bearerToken is the token of "Authorization: Bearer <token>", or "".
func bearerToken(r *http.Request) string {
	scheme, token, _ := strings.Cut(r.Header.Get(wire.AuthorizationHeader), " ")
	if !strings.EqualFold(scheme, "Bearer") {
		return ""
	}
	return strings.TrimLeft(token, " ")
}
