package wire

import (
	"time"

	"github.com/google/uuid"

	"github.com/kvslots/kvslots/kvslots"
)

// MaxBody is the maximal length of a request body in bytes.
const MaxBody = 64 << 10

// Params are the parameters of a request for any operation: gateways decode them (see Route.Read), and clients encode
// them (see Route.Target and Route.Message). The store clamps the durations to its maxima.
type Params struct {
	// What the request is about.
	Pool       uuid.UUID
	Session    string
	Key        string       // of the lock or semaphore
	Kind       kvslots.Kind // of the lock or semaphore, by the route
	PoolsAfter string       // where the page of statistics begins; "" for the first page
	Envelope   *Envelope    // of a call of a function, or nil
	RequestKey string       // see kvslots.WithRequestKey; "" for none

	Count       int
	Name        *string // of a pool that is registered; nil if the request has none
	LeaseID     uuid.UUID
	Token       string
	Label       string          // see kvslots.WithLabel; "" for none
	IdleTimeout time.Duration   // that a new session asks for; 0 for none
	Operator    *OperatorParams // of the requests of operators; nil for others
	Uncounted   bool            // without a slot, the client asks again for its wait, or has left the line: no metric counts it
	TTL         time.Duration   // whole seconds; for a lock or a semaphore, 0 means the default
	Wait        time.Duration   // whole seconds
	Limit       int             // of a semaphore; 0 for others
}

// Envelope is the request for a call of a function.
type Envelope struct {
	Body          []byte
	Authorization string // the value of AuthorizationHeader
}

// Resource returns the lock or semaphore that the request is about. Its limit is 1 if the
// request does not contain it.
func (p *Params) Resource() kvslots.Resource {
	return kvslots.Resource{Kind: p.Kind, Key: p.Key, Limit: max(p.Limit, 1)}
}
