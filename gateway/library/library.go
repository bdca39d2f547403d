// Package library serves the Library API over HTTP: pools of numbered slots under
// /l, borrowed for a bounded time (gateway/README.md, "The Library API: /l"). The
// pool's UUID, in the path or in a header, is the only credential.
package library

import (
	"cmp"
	"log/slog"

	"github.com/go-chi/chi/v5"

	"github.com/kvslots/kvslots/gateway/internal/jsonhttp"
	"github.com/kvslots/kvslots/gateway/internal/ops"
	"github.com/kvslots/kvslots/kvslots/wire"
)

// Dialect serves /l.
type Dialect struct{ service *ops.Service }

// New returns a Dialect that serves the pools of a store, such as a *kvslots.Store.
// lending is the *gateway.Lending that all transports of the gateway share. log receives
// server errors, without ids; nil means no log.
func New(pools ops.Pools, lending *ops.Lending, log *slog.Logger) *Dialect {
	return &Dialect{&ops.Service{Pools: pools, Operator: pools, Lending: lending, Events: lending.Events(ops.APILibrary), Log: cmp.Or(log, slog.New(slog.DiscardHandler))}}
}

// Mount adds the routes of /l.
func (d *Dialect) Mount(r chi.Router) {
	jsonhttp.Mount(r, d.service, ops.OfPools...)
	jsonhttp.Mount(r, d.service, ops.OfOperators(wire.BySecret)...)
}
