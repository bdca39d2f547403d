package gateway

import (
	"cmp"
	"log/slog"
	"net/http"

	"github.com/go-chi/chi/v5"

	"github.com/kvslots/kvslots/gateway/internal/jsonhttp"
	"github.com/kvslots/kvslots/gateway/internal/ops"
	"github.com/kvslots/kvslots/kvslots/wire"
)

// This file has the dialects of pools and of dflockd, and what the transports of a gateway
// share, for programs: package ops, which implements it, is internal.

// Lending counts the open borrows of a gateway over all transports, and ends them when
// the gateway drains. All transports of a gateway share it. Lending.Waits.Limit sets the
// limits of requests that wait, before the gateway serves.
type Lending = ops.Lending

// NewLending returns a Lending that is not stopped.
func NewLending() *Lending { return ops.NewLending() }

// ErrDraining is the cause with which the context of a borrow ends when the gateway
// stops lending.
var ErrDraining = wire.ErrDraining

// Tokens are the bearer tokens that clients may send. All transports of a gateway
// share them. Tokens.Replace replaces them while the gateway serves.
type Tokens = ops.Tokens

// Token is one of Tokens: see Tokens.Replace.
type Token = ops.Token

// NewTokens returns Tokens that accept each of the given tokens. Without any, clients
// need no token.
func NewTokens(tokens ...string) *Tokens { return ops.NewTokens(tokens...) }

// Turns serializes the requests of each session over all transports. All transports of a
// gateway share it.
type Turns = ops.Turns

// NewTurns returns an empty Turns.
func NewTurns() *Turns { return ops.NewTurns() }

// SessionTimes has the fields DefaultLeaseTTL, the lease of a request without a ttl, and
// IdleTimeout, how often clients must ping their sessions; a session ends after twice that
// time without a request. 0 means wire.DefaultLeaseTTL and wire.DefaultIdleTimeout. All
// transports of a gateway must have the same times.
type SessionTimes = ops.SessionTimes

// Limits are exact limits: Total over all transports, and PerIP of one client address, for IPv6
// of one /64. 0 means no limit.
type Limits = ops.Limits

// NewLibrary returns the Library API: pools of numbered slots under /l, borrowed for a bounded
// time (gateway/README.md, "The Library API: /l"). The pool's UUID, in the path or in a
// header, is the only credential. The pools are those of a store, such as a *kvslots.Store. log
// receives server errors, without ids; nil means no log.
func NewLibrary(pools ops.Pools, lending *Lending, log *slog.Logger) Dialect {
	return library{&ops.Service{Pools: pools, Operator: pools, Lending: lending, Events: lending.Events(ops.APILibrary), Log: logger(log)}}
}

func logger(log *slog.Logger) *slog.Logger { return cmp.Or(log, slog.New(slog.DiscardHandler)) }

type library struct{ service *ops.Service }

func (d library) Mount(r chi.Router) {
	jsonhttp.Mount(r, d.service, ops.OfPools...)
}

// DflockdConfig configures NewDflockd.
type DflockdConfig struct {
	Lending *Lending // as Turns: shared by all transports of the gateway
	Turns   *Turns
	SessionTimes

	// Clients returns the number of clients over other transports; nil if unknown.
	Clients func() int

	// Logger receives server errors, without secrets. nil means no log.
	Logger *slog.Logger
}

// NewDflockd returns the HTTP API of dflockd: locks and semaphores by name under /v1, held by
// the sessions of a store (gateway/README.md, "The dflockd API: /v1"). A session's id is a
// credential, and so is the token of a lease; keys are not.
//
// Where dflockd's specification is silent, it refuses unknown fields in bodies; it answers
// bad_request with status 413 to a body that is too long, and with status 408 to one that does
// not arrive in time; and it answers 502 unavailable if the store does not respond, after which
// a request may be repeated.
func NewDflockd(sessions ops.Sessions, cfg DflockdConfig) Dialect {
	return dflockd{&ops.Service{
		Sessions: sessions, Operator: sessions, Lending: cfg.Lending, Turns: cfg.Turns, Events: cfg.Lending.Events(ops.APIDflockd),
		SessionTimes: cfg.SessionTimes, Clients: cfg.Clients, Log: logger(cfg.Logger),
	}}
}

type dflockd struct{ service *ops.Service }

func (d dflockd) Mount(r chi.Router) {
	jsonhttp.Mount(r, d.service, ops.OfSessions...)
	jsonhttp.Mount(r, d.service, ops.OfResources...)
	jsonhttp.Mount(r, d.service, ops.Stats, ops.ReadLeases, ops.ReadLine)
	jsonhttp.Mount(r, d.service, ops.OfOperators...)
}

// Prefix and RenderError make it an ErrorRenderer.
func (d dflockd) Prefix() string { return "/v1" }

func (d dflockd) RenderError(w http.ResponseWriter, status int, code, text string) {
	_ = jsonhttp.Answer(w, status, wire.Failure{Error: code, Detail: text})
}
