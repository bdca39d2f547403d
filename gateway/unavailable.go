package gateway

import (
	"net/http"

	"github.com/go-chi/chi/v5"

	"github.com/kvslots/kvslots/gateway/internal/jsonhttp"
	"github.com/kvslots/kvslots/kvslots"
	"github.com/kvslots/kvslots/kvslots/wire"
)

// Unavailable is the only Dialect of a gateway without a store. It answers 502 to every path, so
// that clients retry.
type Unavailable struct{}

// Mount implements Dialect.
func (Unavailable) Mount(r chi.Router) {
	r.HandleFunc("/*", func(w http.ResponseWriter, r *http.Request) {
		statusOf := wire.StatusOf
		if isBelow(routedPath(r), "/v1") {
			statusOf = wire.CodeOf
		}
		jsonhttp.Refuse(w, statusOf(kvslots.ErrUnavailable))
	})
}
