// Package dflockd serves the HTTP API of dflockd: locks and semaphores by name
// under /v1, held by sessions (gateway/README.md, "The dflockd API: /v1"). A
// session's id is a credential, and so is the token of what it holds; keys are none.
//
// What dflockd leaves open: bodies are read strictly; one that is too long is a
// bad_request with status 413, one that is too slow one with 408; a store that
// does not answer is 502 unavailable, which is safe to repeat.
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
	// Lending and Turns are those that all transports of the gateway share:
	// *gateway.Lending and *gateway.Turns.
	Lending *ops.Lending
	Turns   *ops.Turns

	// DefaultLeaseTTL is how long a lease lasts that is asked for without a
	// ttl; 0 means 33 s.
	DefaultLeaseTTL time.Duration

	// IdleTimeout is what clients are told: how often to ping at least.
	// Sessions end at twice that. 0 means 20 s.
	IdleTimeout time.Duration

	// Clients is how many clients are connected otherwise; nil when that is
	// not known.
	Clients func() int

	// Logger takes what a request failed of, and no secrets with it.
	Logger zerolog.Logger
}

// Dialect serves /v1.
type Dialect struct{ operations jsonhttp.Operations }

// New makes the dialect over sessions, such as a *kvslots.Store.
func New(sessions ops.Sessions, cfg Config) *Dialect {
	return &Dialect{jsonhttp.Operations{
		Service: &ops.Service{
			Sessions: sessions, Lending: cfg.Lending, Turns: cfg.Turns,
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

// readCall reads a request: the session is in its path, or, where that has the key, in
// a header.
func readCall(w http.ResponseWriter, r *http.Request, call *ops.Call) error {
	body, err := jsonhttp.ReadFields(w, r, call.Operation)
	if err != nil {
		return err
	}
	call.Session, call.Remote = jsonhttp.PathValue(r, "id"), r.RemoteAddr
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

// Prefix is where the dialect's paths begin.
func (d *Dialect) Prefix() string { return prefix }

// RenderError answers for the gateway, as the dialect would: the code is
// stable, the text is for people.
func (d *Dialect) RenderError(w http.ResponseWriter, status int, code, text string) {
	_ = jsonhttp.Answer(w, status, wire.Failure{Error: code, Detail: text})
}
