package wire

import (
	"time"

	"github.com/google/uuid"

	"github.com/kvslots/kvslots/kvslots"
)

// Pool parses {"id"} of a request over NATS. Over HTTP the path contains the pool's id.
func (f Fields) Pool() (uuid.UUID, error) { return f.id("id") }

// Params are the parameters of an operation. Route.Read sets them.
type Params struct {
	// What the request is about.
	Pool       uuid.UUID
	Session    string
	Key        string       // of the lock or semaphore
	Kind       kvslots.Kind // of the lock or semaphore; set before the body is parsed
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
	GrantParams
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

// GrantParams contains the parameters of a borrow, an acquire or an enqueue. The store
// clamps the durations to its maxima.
type GrantParams struct {
	TTL   time.Duration // whole seconds; for a lock or a semaphore, 0 means the default
	Wait  time.Duration // whole seconds
	Limit int           // of a semaphore; 0 for others
}

// Request is the body of any request, as a client writes it. Fields that are nil or zero
// are left out. Times are in seconds.
type Request struct {
	// About a pool. Over HTTP the path contains the id.
	ID    *uuid.UUID `json:"id,omitempty"`
	Count *int       `json:"count,omitempty"`
	Lease *uuid.UUID `json:"lease,omitempty"`
	TTL   int64      `json:"ttl,omitempty"`
	Wait  int64      `json:"wait,omitempty"`
	Name  *string    `json:"name,omitempty"`
	Label string     `json:"label,omitempty"` // also of a session, and of a lock or a semaphore

	// About a session. Over HTTP the path, or SessionHeader, contains the session, and the
	// path the key.
	Session        string `json:"session,omitempty"`
	Key            string `json:"key,omitempty"`
	Limit          int    `json:"limit,omitempty"`
	Token          string `json:"token,omitempty"`
	LeaseTTL       int64  `json:"lease_ttl_s,omitempty"`
	AcquireTimeout *int64 `json:"acquire_timeout_s,omitempty"`
	WaitTimeout    *int64 `json:"timeout_s,omitempty"`
	IdleTimeout    int64  `json:"idle_timeout_s,omitempty"`
	Uncounted      bool   `json:"uncounted,omitempty"` // also about a pool
}

// Encode returns the JSON of the body.
func (r Request) Encode() []byte {
	body, _ := Encode(r) // cannot fail for ids, strings and numbers
	return body
}

// Seconds returns a duration in whole seconds, rounded up, for a request.
func Seconds(d time.Duration) int64 { return int64((d + time.Second - 1) / time.Second) }
