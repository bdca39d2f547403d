package bench

import (
	"context"
	"time"

	"github.com/google/uuid"
)

// The doors.
const (
	doorLibrary = "library" // kvslots.Store, a peer in the measuring process
	doorNATS    = "nats"    // client.New, over a NATS connection
	doorHTTP    = "http"    // /l
	doorV1      = "v1"      // /v1
)

var doorNames = []string{doorLibrary, doorNATS, doorHTTP, doorV1}

// Door is a transport by which clients reach kvslots.
type Door interface {
	// Name is one of DoorNames.
	Name() string

	// Pools makes so many pools of so many slots, for clients 0 … clients−1.
	Pools(ctx context.Context, pools, slots, clients int) (Pools, error)

	// Named gives access to locks (slots is 1) or semaphores that are made by
	// their first use, each client with a session of its own; pools are told
	// apart by any number. It returns errors.ErrUnsupported if the door has
	// none.
	Named(ctx context.Context, slots, clients int) (Pools, error)
}

// Pools are pools, or locks and semaphores, as a door's clients use them. A
// client does one thing at a time. Each may fail with what the door fails with,
// or with what ctx ends with.
type Pools interface {
	// Take borrows a slot of a pool for ttl, and waits for it for up to wait;
	// both are whole seconds.
	Take(ctx context.Context, client, pool int, ttl, wait time.Duration) (Held, error)

	// Give returns a slot that any client has taken.
	Give(ctx context.Context, client, pool int, held Held) error

	// Waiting returns the number of borrowers in a pool's line.
	Waiting(ctx context.Context, pool int) (int, error)

	// Queue puts each client in a pool's line, to wait there for an hour at
	// most, with as little as possible of the measuring process's memory. It
	// returns when each request is sent. leave ends the requests.
	Queue(ctx context.Context, pool int) (leave func(), err error)

	// Close deletes the pools, or ends the sessions, and whatever is held.
	Close(ctx context.Context) error
}

// Held is a slot that was taken.
type Held struct {
	lease uuid.UUID // of a pool
	token string    // of a lock or a semaphore

	// Ends is when the lease ends, by this process's monotonic clock. Over HTTP
	// it is counted from the answer's arrival, later by the answer's way.
	Ends time.Time
}

// The times that workloads ask for unless they measure them.
const (
	longTTL  = 10 * time.Minute
	longWait = time.Hour
)
