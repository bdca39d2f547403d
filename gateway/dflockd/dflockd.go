// Package dflockd serves the HTTP API of dflockd: locks and semaphores by name
// under /v1, held by sessions (gateway/README.md, "The dflockd API: /v1"). A
// session's id is a credential, and so is the token of what it holds; keys are none.
//
// What dflockd leaves open: bodies are read strictly; one that is too long is a
// bad_request with status 413, one that is too slow one with 408; a store that
// does not answer is 502 unavailable, which is safe to repeat.
package dflockd

import (
	"context"
	"net/http"
	"time"

	"github.com/go-chi/chi/v5"
	"github.com/rs/zerolog"

	"github.com/kvslots/kvslots/gateway/internal/jsonhttp"
	"github.com/kvslots/kvslots/gateway/internal/locking"
	"github.com/kvslots/kvslots/kvslots"
	"github.com/kvslots/kvslots/kvslots/wire"
	"github.com/kvslots/kvslots/kvslots/wire/subjects"
)

const prefix = "/v1"

// Sessions is what the dialect does with sessions; *kvslots.Store does it.
type Sessions interface {
	locking.Sessions
	Stats(ctx context.Context) (kvslots.Stats, error)
}

// Lending opens a request that may be granted something, and says under which
// context it may wait; *gateway.Lending is one.
type Lending interface {
	Begin(ctx context.Context) (borrow context.Context, end func())
}

// Turns serves the requests of a session one after the other; *gateway.Turns
// does. The doors of one gateway share it.
type Turns interface {
	Take(ctx context.Context, session string) (done func(), err error)
	End(session string)
}

// Config says how the dialect works.
type Config struct {
	Lending Lending
	Turns   Turns

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
type Dialect struct {
	sessions Sessions
	desk     *locking.Desk
	clients  func() int
	log      zerolog.Logger
}

// New makes the dialect.
func New(sessions Sessions, cfg Config) *Dialect {
	desk := locking.Desk{
		Sessions: sessions, Lending: cfg.Lending, Turns: cfg.Turns,
		DefaultLeaseTTL: cfg.DefaultLeaseTTL, IdleTimeout: cfg.IdleTimeout,
	}
	if cfg.Clients == nil {
		cfg.Clients = func() int { return 0 }
	}
	return &Dialect{sessions: sessions, desk: desk.WithDefaults(), clients: cfg.Clients, log: cfg.Logger}
}

// Mount adds the routes.
func (d *Dialect) Mount(r chi.Router) {
	r.Post(prefix+"/sessions", d.handle(d.create))
	r.Delete(prefix+"/sessions/{id}", d.handle(d.end))
	r.Post(prefix+"/sessions/{id}/ping", d.handle(d.ping))
	r.Get(prefix+"/stats", d.handle(d.stats))
	r.Head(prefix+"/stats", d.handle(d.stats))
	for word, kind := range locking.Kinds {
		path := prefix + "/" + word + "s/{key}"
		for _, op := range locking.Operations {
			if op.Name == subjects.Acquire {
				r.Post(path, d.handle(d.serve(kind, op)))
			} else {
				r.Post(path+"/"+op.Name, d.handle(d.serve(kind, op)))
			}
		}
	}
}

// handle renders errors by the table of the dflockd API.
func (d *Dialect) handle(handler jsonhttp.Handler) http.HandlerFunc {
	return jsonhttp.HandleAs(wire.CodeOf, d.log, handler)
}

// Prefix is where the dialect's paths begin.
func (d *Dialect) Prefix() string { return prefix }

// RenderError answers for the gateway, as the dialect would: the code is
// stable, the text is for people.
func (d *Dialect) RenderError(w http.ResponseWriter, status int, code, text string) {
	_ = jsonhttp.Answer(w, status, wire.Failure{Error: code, Detail: text})
}
