// Package library serves the Library API over HTTP: pools of numbered slots under
// /l, borrowed for a bounded time (gateway/README.md, "The Library API: /l"). The
// pool's UUID in the path is the only credential.
package library

import (
	"context"
	"time"

	"github.com/go-chi/chi/v5"
	"github.com/google/uuid"
	"github.com/rs/zerolog"

	"github.com/kvslots/kvslots/gateway/internal/jsonhttp"
	"github.com/kvslots/kvslots/kvslots"
)

// Pools is what the dialect does with pools; *kvslots.Store does it.
type Pools interface {
	Register(ctx context.Context, pool uuid.UUID, count int) (kvslots.State, error)
	Inspect(ctx context.Context, pool uuid.UUID) (kvslots.State, error)
	Delete(ctx context.Context, pool uuid.UUID) error
	Borrow(ctx context.Context, pool uuid.UUID, ttl, wait time.Duration, opts ...kvslots.BorrowOption) (*kvslots.Lease, error)
	Return(ctx context.Context, pool, lease uuid.UUID) (bool, error)
	Renew(ctx context.Context, pool, lease uuid.UUID, ttl time.Duration) (*kvslots.Lease, error)
}

// Lending opens a borrow and says under which context it may wait;
// *gateway.Lending is one. The context ends with the gateway's own reason when
// no more is lent.
type Lending interface {
	Begin(ctx context.Context) (borrow context.Context, end func())
}

// Dialect serves /l.
type Dialect struct {
	pools   Pools
	lending Lending
	log     zerolog.Logger
}

// New makes the dialect. What a request failed of goes to log, never to the
// client, and no ids with it.
func New(pools Pools, lending Lending, log zerolog.Logger) *Dialect {
	return &Dialect{pools: pools, lending: lending, log: log}
}

// Mount adds the routes.
func (d *Dialect) Mount(r chi.Router) {
	r.Put("/l/{id}", jsonhttp.Handle(d.log, d.register))
	r.Get("/l/{id}", jsonhttp.Handle(d.log, d.inspect))
	r.Head("/l/{id}", jsonhttp.Handle(d.log, d.inspect))
	r.Delete("/l/{id}", jsonhttp.Handle(d.log, d.remove))
	r.Post("/l/{id}/borrow", jsonhttp.Handle(d.log, d.borrow))
	r.Post("/l/{id}/return", jsonhttp.Handle(d.log, d.giveBack))
	r.Post("/l/{id}/renew", jsonhttp.Handle(d.log, d.renew))
}
