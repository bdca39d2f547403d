package gateway

import (
	"net/http"

	"github.com/rs/cors"

	"github.com/kvslots/kvslots/kvslots/wire"
)

// corsMaxAge is how long a browser may go on without asking again, in seconds.
const corsMaxAge = 600

// allowOrigins lets pages of Config.CORSOrigins read the answers, refusals
// included, and answers what their browsers ask before (README.md, "Access"). It
// comes before the token is asked for: browsers send none with that.
func (g *Gateway) allowOrigins(next http.Handler) http.Handler {
	if len(g.cfg.CORSOrigins) == 0 { // would mean all of them to cors
		return next
	}
	return cors.New(cors.Options{
		AllowedOrigins: g.cfg.CORSOrigins,
		AllowedMethods: []string{http.MethodGet, http.MethodHead, http.MethodPut, http.MethodPost, http.MethodDelete},
		AllowedHeaders: []string{wire.AuthorizationHeader, "Content-Type", wire.SessionHeader},
		ExposedHeaders: []string{wire.RetryAfterHeader, wire.ErrorHeader, wire.WaitedHeader},
		MaxAge:         corsMaxAge,
	}).Handler(next)
}
