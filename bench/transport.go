package bench

import (
	"context"
	"time"

	"github.com/google/uuid"
)

const (
	// TransportLibrary is a kvslots.Store: a peer of the library, in the process that measures.
	TransportLibrary = "library"

	transportNATS = "nats" // natsclient.New, over a NATS connection
	transportHTTP = "http" // /l
	transportV1   = "v1"   // /v1
)

// TransportNames returns the transports of a gateway in another process, which are valid
// values of Config.Transports, as is TransportLibrary.
func TransportNames() []string {
	return []string{transportNATS, transportHTTP, transportV1}
}

// Transport is a transport by which clients reach kvslots.
type Transport interface {
	// Name is TransportLibrary or one of TransportNames.
	Name() string

	// Pools registers a number of pools with slots each, for clients 0 … clients−1.
	Pools(ctx context.Context, pools, slots, clients int) (Pools, error)

	// Named returns locks (slots is 1) or semaphores as Pools of which any number
	// is valid; the first use of a number creates the lock or semaphore. Each
	// client has its own session. Named returns errors.ErrUnsupported if the
	// transport has no locks and semaphores.
	Named(ctx context.Context, slots, clients int) (Pools, error)
}

// poolTransport is a Transport whose pools have ids, which is every one but /v1. Several of
// them can use the same pools.
type poolTransport interface {
	Transport

	// Share returns registered pools, for clients 0 … clients−1.
	Share(ids []uuid.UUID, clients int) (Pools, error)
}

// Pools are pools, or locks and semaphores, as a transport's clients use them. Calls of
// one client must not be concurrent. Errors are those of the transport and the cause of
// ctx.
type Pools interface {
	// Take borrows a slot of a pool for ttl, and waits for it for up to wait;
	// both are whole seconds.
	Take(ctx context.Context, client, pool int, ttl, wait time.Duration) (Held, error)

	// Give returns a slot that a client, not necessarily the same, has taken.
	Give(ctx context.Context, client, pool int, held Held) error

	// Waiting returns the number of borrowers in a pool's line.
	Waiting(ctx context.Context, pool int) (int, error)

	// Queue sends a request of each client that waits in a pool's line for at most
	// an hour, with as little memory in this process as possible. It returns when
	// all requests are sent. leave ends the requests; its error says why some are not
	// in the line, if that is known.
	Queue(ctx context.Context, pool int) (leave func() error, err error)

	// Close deletes the pools or ends the sessions, and thereby all leases.
	Close(ctx context.Context) error
}

// Held is a slot that was taken.
type Held struct {
	lease uuid.UUID // of a pool
	token string    // of a lock or a semaphore

	// Ends is the end of the lease by this process's monotonic clock. Over HTTP it
	// is calculated at the arrival of the answer, and so too late by its transit time.
	Ends time.Time
}

// The ttl and the wait of requests in workloads that do not measure expiry.
const (
	longTTL  = 10 * time.Minute
	longWait = time.Hour
)
