// Package dflockd serves the HTTP API of dflockd: locks and semaphores by name
// under /v1, held by sessions (gateway/README.md, "The dflockd API: /v1"). A
// session's id is a credential, and so is the token of a lease; keys are not.
//
// Where dflockd specifies nothing: unknown fields in bodies are refused; a body that is
// too long is a bad_request with status 413, and one that is too slow with 408; a store
// that does not answer is 502 unavailable, which is safe to repeat.
package dflockd

import (
	"net/http"
	"time"

	"github.com/go-chi/chi/v5"
	"github.com/rs/zerolog"

	"github.com/kvslots/kvslots/gateway/internal/jsonhttp"
	"github.com/kvslots/kvslots/gateway/internal/ops"
	"github.com/kvslots/kvslots/kvslots"
	"github.com/kvslots/kvslots/kvslots/wire"
	"github.com/kvslots/kvslots/kvslots/wire/subjects"
)

const prefix = "/v1"

// Config says how the dialect works.
type Config struct {
	// Lending and Turns are the *gateway.Lending and *gateway.Turns that all
	// transports of the gateway share.
	Lending *ops.Lending
	Turns   *ops.Turns

	// DefaultLeaseTTL is the lease of a request without lease_ttl_s; 0 means 33 s.
	DefaultLeaseTTL time.Duration

	// IdleTimeout is how often clients must ping their sessions, as they are told.
	// Sessions end after twice that time. 0 means 20 s.
	IdleTimeout time.Duration

	// Clients returns the number of clients over other transports; nil if unknown.
	Clients func() int

	// Logger receives server errors, without secrets.
	Logger zerolog.Logger
}

// Dialect serves /v1.
type Dialect struct{ operations jsonhttp.Operations }

// New returns the dialect of sessions, such as a *kvslots.Store.
func New(sessions ops.Sessions, cfg Config) *Dialect {
	return &Dialect{jsonhttp.Operations{
		Service: &ops.Service{
			Sessions: sessions, Lending: cfg.Lending, Turns: cfg.Turns, Events: cfg.Lending.Events(ops.APIDflockd),
			DefaultLeaseTTL: cfg.DefaultLeaseTTL, IdleTimeout: cfg.IdleTimeout, Clients: cfg.Clients,
		},
		Read: readCall,
		Log:  cfg.Logger,
	}}
}

// Mount adds the routes.
func (d *Dialect) Mount(r chi.Router) {
	r.Post(prefix+"/sessions", d.operations.Handle(ops.CreateSession))
	r.Delete(prefix+"/sessions/{id}", d.operations.Handle(ops.EndSession))
	r.Post(prefix+"/sessions/{id}/ping", d.operations.Handle(ops.PingSession))
	r.Get(prefix+"/stats", d.operations.Handle(ops.Stats))
	r.Head(prefix+"/stats", d.operations.Handle(ops.Stats))
	for _, op := range ops.OfResources {
		path := prefix + "/" + op.Noun + "s/{key}"
		if op.Name != subjects.Acquire {
			path += "/" + op.Name
		}
		r.Post(path, d.operations.Handle(op))
	}
}

// readCall reads a request. The session is in the path, or, if the path has the key, in
// a header.
func readCall(w http.ResponseWriter, r *http.Request, call *ops.Call) error {
	body, err := jsonhttp.ReadFields(w, r, call.Operation)
	if err != nil {
		return err
	}
	call.Session, call.Remote = jsonhttp.PathValue(r, "id"), r.RemoteAddr
	if call.Operation == ops.Stats {
		call.PoolsAfter = r.URL.Query().Get("pools_after")
	}
	if call.Noun != "" {
		session := r.Header.Values(wire.SessionHeader)
		if len(session) != 1 || session[0] == "" {
			return &kvslots.RangeError{Field: "header " + wire.SessionHeader, Range: "the id of a session"}
		}
		call.Session, call.Resource.Key = session[0], jsonhttp.PathValue(r, "key")
		if err := wire.CheckKey(call.Resource.Key); err != nil {
			return err
		}
	}
	return call.Read(body)
}

// Prefix returns the beginning of the dialect's paths.
func (d *Dialect) Prefix() string { return prefix }

// RenderError answers with an error of the gateway in the form of the dialect.
func (d *Dialect) RenderError(w http.ResponseWriter, status int, code, text string) {
	_ = jsonhttp.Answer(w, status, wire.Failure{Error: code, Detail: text})
}
