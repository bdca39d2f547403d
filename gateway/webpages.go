package gateway

import (
	"net"
	"net/http"
	"net/netip"
	"slices"
	"strings"

	"github.com/rs/cors"

	"github.com/kvslots/kvslots/kvslots/wire"
)

// guardPages refuses what the browser of a user sends on behalf of a web page that the
// operator has not allowed (README.md, "Web pages"). Where a token is required, a page
// without the token is refused anyway.
func (g *Gateway) guardPages(next http.Handler) http.Handler {
	if g.cfg.Hosts == nil && g.cfg.Tokens.Required() {
		return next
	}
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		switch {
		case g.cfg.Hosts != nil && !g.answersTo(r.Host):
			g.fail(w, r, wire.ForeignHost)
		case !g.cfg.Tokens.Required() && g.isForeign(r):
			g.fail(w, r, wire.ForeignOrigin)
		default:
			next.ServeHTTP(w, r)
		}
	})
}

// answersTo reports whether a request may have this header Host. A page whose name the
// DNS resolves to this machine (DNS rebinding) has its own name there, and the browser
// takes the gateway for the origin of the page. Addresses cannot be rebound.
func (g *Gateway) answersTo(host string) bool {
	name := host
	if split, _, err := net.SplitHostPort(host); err == nil {
		name = split
	}
	name = strings.ToLower(strings.TrimSuffix(name, "."))
	if name == "" || name == "localhost" { // HTTP/1.0 needs no Host; browsers send one
		return true
	}
	_, err := netip.ParseAddr(strings.Trim(name, "[]"))
	return err == nil || slices.ContainsFunc(g.cfg.Hosts, func(allowed string) bool { return strings.EqualFold(allowed, name) })
}

// isForeign reports whether a request writes, and comes from a page of another origin
// than the gateway's own and Config.CORSOrigins. Browsers say so in Sec-Fetch-Site or
// Origin, and send simple requests without asking before.
func (g *Gateway) isForeign(r *http.Request) bool {
	return g.sameOrigin.Check(r) != nil && (g.cors == nil || !g.cors.OriginAllowed(r))
}

// newCORS returns nil without allowed origins, which would mean all of them to cors.
func newCORS(origins []string) *cors.Cors {
	if len(origins) == 0 {
		return nil
	}
	return cors.New(cors.Options{
		AllowedOrigins: origins,
		AllowedMethods: []string{http.MethodGet, http.MethodHead, http.MethodPut, http.MethodPost, http.MethodDelete},
		AllowedHeaders: []string{wire.AuthorizationHeader, "Content-Type", wire.SessionHeader, wire.RequestIDHeader, wire.TraceHeader},
		ExposedHeaders: []string{wire.RetryAfterHeader, wire.ErrorHeader, wire.FieldHeader, wire.RangeHeader, wire.WaitedHeader, wire.RequestIDHeader},
		MaxAge:         corsMaxAge,
	})
}

// corsMaxAge is how long a browser may keep the answer to a preflight request, in
// seconds.
const corsMaxAge = 600

// allowOrigins lets pages of Config.CORSOrigins read the answers, refusals included,
// and answers preflight requests (README.md, "Web pages"). It precedes authentication:
// browsers send no token with a preflight request.
func (g *Gateway) allowOrigins(next http.Handler) http.Handler {
	if g.cors == nil {
		return next
	}
	return g.cors.Handler(next)
}
