package gateway

import (
	"net/http"

	"github.com/go-chi/chi/v5"

	"github.com/kvslots/kvslots/gateway/internal/jsonhttp"
	"github.com/kvslots/kvslots/kvslots"
	"github.com/kvslots/kvslots/kvslots/wire"
)

// Waiting is the only Dialect of a gateway without a store. It answers 502 to every path, so
// that clients retry.
type Waiting struct{}

// Mount implements Dialect.
func (Waiting) Mount(r chi.Router) {
	r.HandleFunc("/*", func(w http.ResponseWriter, r *http.Request) {
		statusOf := wire.StatusOf
		if isBelow(routedPath(r), "/v1") {
			statusOf = wire.CodeOf
		}
		jsonhttp.Refuse(w, statusOf(kvslots.ErrUnavailable))
	})
}
