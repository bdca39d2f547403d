package client

import (
	"context"
	"net/http"
	"time"

	"github.com/kvslots/kvslots/kvslots"
	"github.com/kvslots/kvslots/kvslots/wire"
	"github.com/kvslots/kvslots/kvslots/wire/subjects"
)

// transport sends requests to gateways.
type transport interface {
	// ask sends a request and passes the answer to read. When it returns an error,
	// nothing that was granted stays held, as far as the transport can inform the
	// gateways. Its errors are a *wire.Refusal, an *Unanswered, ErrNotUnderstood, the
	// cause of ctx, and those of read.
	ask(ctx context.Context, r request, read func(answer) error) error

	close()
}

// answer is a successful answer of a gateway.
type answer struct {
	body   []byte
	header header
}

// request is a request to a gateway.
type request struct {
	operation
	pool    wire.PoolRequest    // of a request about a pool
	session wire.SessionRequest // of any other request
	wait    time.Duration       // how long the gateway may wait before it answers

	// undo returns the request that gives back what was granted. It is called after the
	// answer was read. It is nil if the request grants nothing.
	undo func() request
}

// operation is an operation of a gateway. In the path, {} stands for the id of a pool
// or a session, or for a key.
type operation struct{ subject, method, path string }

var (
	poolRegister = operation{subjects.PoolRegister, http.MethodPut, "/l/{}"}
	poolInspect  = operation{subjects.PoolInspect, http.MethodGet, "/l/{}"}
	poolDelete   = operation{subjects.PoolDelete, http.MethodDelete, "/l/{}"}
	poolBorrow   = operation{subjects.PoolBorrow, http.MethodPost, "/l/{}/borrow"}
	poolReturn   = operation{subjects.PoolReturn, http.MethodPost, "/l/{}/return"}
	poolRenew    = operation{subjects.PoolRenew, http.MethodPost, "/l/{}/renew"}

	sessionCreate = operation{subjects.SessionCreate, http.MethodPost, "/v1/sessions"}
	sessionPing   = operation{subjects.SessionPing, http.MethodPost, "/v1/sessions/{}/ping"}
	sessionDelete = operation{subjects.SessionDelete, http.MethodDelete, "/v1/sessions/{}"}

	resourceOperations = map[kvslots.Kind]map[string]operation{
		kvslots.KindLock:      operationsOn(subjects.Lock),
		kvslots.KindSemaphore: operationsOn(subjects.Semaphore),
	}
)

func operationsOn(kind string) map[string]operation {
	path := "/v1/" + kind + "s/{}"
	all := map[string]operation{subjects.Acquire: {subjects.Of(kind, subjects.Acquire), http.MethodPost, path}}
	for _, word := range []string{subjects.Enqueue, subjects.Wait, subjects.Release, subjects.Renew} {
		all[word] = operation{subjects.Of(kind, word), http.MethodPost, path + "/" + word}
	}
	return all
}
