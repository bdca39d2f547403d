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

// guardPages refuses requests that a user's browser sends on behalf of a web page that the
// operator has not allowed (README.md, "Web pages"). If a token is required, authenticate
// refuses them.
func (g *Gateway) guardPages(w http.ResponseWriter, r *http.Request) bool {
	var refusal wire.Status
	switch {
	case g.cfg.Hosts != nil && !g.answersTo(r.Host):
		refusal = wire.ForeignHost
	case !g.cfg.Tokens.Required() && !opensPage(r) && g.isForeign(r):
		refusal = wire.ForeignOrigin
		g.tellOrigin(r)
	default:
		return true
	}
	switch {
	case !g.within(g.pages, w, r):
	case refusal == wire.ForeignOrigin && r.Method == http.MethodOptions: // dflockd has no preflight where CORS is off
		g.methodNotAllowed(w, r)
	default:
		g.fail(w, r, refusal)
	}
	return false
}

// opensPage reports whether a user follows a link to /.
func opensPage(r *http.Request) bool {
	return r.Method == http.MethodGet && routedPath(r) == "/" && r.Header.Get("Sec-Fetch-Mode") == "navigate" && r.Header.Get("Sec-Fetch-Dest") == "document"
}

// answersTo reports whether a request may have the given header Host. If the name of a
// page's site resolves to this machine (DNS rebinding), the browser takes the gateway for
// the page's own origin, and Host is that name. Addresses cannot be rebound.
func (g *Gateway) answersTo(host string) bool {
	name := host
	if split, _, err := net.SplitHostPort(host); err == nil {
		name = split
	}
	name = strings.ToLower(strings.TrimSuffix(name, "."))
	if name == "" || name == "localhost" { // a request without Host is HTTP/1.0, and not from a browser
		return true
	}
	_, err := netip.ParseAddr(strings.Trim(name, "[]"))
	return err == nil || slices.ContainsFunc(g.cfg.Hosts, func(allowed string) bool { return strings.EqualFold(allowed, name) })
}

// isForeign reports whether a request comes from a page of an origin other than the
// gateway's own and Config.CORSOrigins, according to Sec-Fetch-Site or Origin. Browsers
// send simple requests of any page without a preflight request.
func (g *Gateway) isForeign(r *http.Request) bool {
	asWrite := *r // Check passes whatever only reads
	asWrite.Method = http.MethodPost
	return g.sameOrigin.Check(&asWrite) != nil && (g.cors == nil || !g.cors.OriginAllowed(r))
}

// tellOrigin logs once how an origin is allowed, which browsers tell neither the page nor its
// user.
func (g *Gateway) tellOrigin(r *http.Request) {
	if origin := r.Header.Get("Origin"); origin != "" {
		g.toldOrigin.Do(func() {
			g.log.Warn("web pages of this origin are refused, unless it is one of --http-cors-allowed-origins", "origin", origin)
		})
	}
}

// newCORS returns nil if no origin is allowed: package cors would allow all of them.
func newCORS(origins []string) *cors.Cors {
	if len(origins) == 0 {
		return nil
	}
	return cors.New(cors.Options{
		AllowedOrigins: origins,
		AllowedMethods: []string{http.MethodGet, http.MethodHead, http.MethodPut, http.MethodPost, http.MethodDelete},
		AllowedHeaders: []string{wire.AuthorizationHeader, "Content-Type", wire.SessionHeader, wire.PoolHeader, wire.LeaseHeader, wire.RequestKeyHeader, wire.RequestIDHeader, wire.TraceHeader, wire.LastEventIDHeader},
		ExposedHeaders: []string{wire.RetryAfterHeader, wire.ErrorHeader, wire.FieldHeader, wire.RangeHeader, wire.CauseHeader, wire.WaitedHeader, wire.WaitHeader, wire.PlaceHeader, wire.TakenHeader, wire.StoreHeader, wire.RequestIDHeader},
		MaxAge:         corsMaxAge,
	})
}

// corsMaxAge is how long a browser may keep the answer to a preflight request, in
// seconds.
const corsMaxAge = 600

// answerPreflight allows pages of Config.CORSOrigins to read answers, including refusals.
// It reports whether a request was a preflight request, which it has answered (README.md,
// "Web pages"). It precedes authentication, since browsers send no token with a preflight
// request, and refuses none for its rate, since a page could not read why.
func (g *Gateway) answerPreflight(w http.ResponseWriter, r *http.Request) bool {
	preflight := r.Method == http.MethodOptions && r.Header.Get("Access-Control-Request-Method") != ""
	if preflight && (g.cors == nil || !g.cors.OriginAllowed(r)) {
		g.tellOrigin(r)
	}
	if g.cors == nil {
		return false
	}
	g.cors.HandlerFunc(w, r)
	if preflight {
		g.decide(g.preflights, r)
	}
	return preflight
}
