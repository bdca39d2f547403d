// Package dflockd serves the HTTP API of dflockd: locks and semaphores by name
// under /v1, held by sessions (gateway/README.md, "The dflockd API: /v1"). A
// session's id is a credential, and so is the token of a lease; keys are not.
//
// Where dflockd's specification is silent, this package refuses unknown fields in bodies;
// it answers bad_request with status 413 to a body that is too long, and with status 408
// to one that does not arrive in time; and it answers 502 unavailable if the store does not
// respond, after which a request may be repeated.
package dflockd

import (
	"cmp"
	"log/slog"
	"net/http"

	"github.com/go-chi/chi/v5"

	"github.com/kvslots/kvslots/gateway/internal/jsonhttp"
	"github.com/kvslots/kvslots/gateway/internal/ops"
	"github.com/kvslots/kvslots/kvslots/wire"
)

const prefix = "/v1"

// Config configures a Dialect.
type Config struct {
	// Lending and Turns are the *gateway.Lending and *gateway.Turns that all
	// transports of the gateway share.
	Lending *ops.Lending
	Turns   *ops.Turns

	// SessionTimes is a gateway.SessionTimes.
	ops.SessionTimes

	// Clients returns the number of clients over other transports; nil if unknown.
	Clients func() int

	// Logger receives server errors, without secrets. nil means no log.
	Logger *slog.Logger
}

// Dialect serves /v1.
type Dialect struct{ service *ops.Service }

// New returns a Dialect that serves the sessions of a store, such as a *kvslots.Store.
func New(sessions ops.Sessions, cfg Config) *Dialect {
	return &Dialect{&ops.Service{
		Sessions: sessions, Operator: sessions, Lending: cfg.Lending, Turns: cfg.Turns, Events: cfg.Lending.Events(ops.APIDflockd),
		SessionTimes: cfg.SessionTimes, Clients: cfg.Clients, Log: cmp.Or(cfg.Logger, slog.New(slog.DiscardHandler)),
	}}
}

// Mount adds the routes of /v1.
func (d *Dialect) Mount(r chi.Router) {
	jsonhttp.Mount(r, d.service, ops.OfSessions...)
	jsonhttp.Mount(r, d.service, ops.OfResources...)
	jsonhttp.Mount(r, d.service, ops.Stats, ops.ListPools)
	for _, naming := range []wire.Naming{wire.ByHash, wire.ByLock, wire.BySemaphore} {
		jsonhttp.Mount(r, d.service, ops.OfOperators(naming)...)
	}
}

// Prefix returns the beginning of the dialect's paths.
func (d *Dialect) Prefix() string { return prefix }

// RenderError answers with an error of the gateway in the form of the dialect.
func (d *Dialect) RenderError(w http.ResponseWriter, status int, code, text string) {
	_ = jsonhttp.Answer(w, status, wire.Failure{Error: code, Detail: text})
}
