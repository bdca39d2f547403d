package wire

import (
	"time"

	"github.com/google/uuid"

	"github.com/kvslots/kvslots/kvslots"
)

// Pool parses {"id"} of a request over NATS. Over HTTP the path contains the pool's id.
func (f Fields) Pool() (uuid.UUID, error) { return f.id("id") }

// Params are the parameters of an operation. Route.Read sets them. Each parsing method of
// Fields sets those in its comment, and returns an error if one of them is missing or out of
// range.
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
	Limit int           // 1 for a lock; 0 for a pool

	AnyLimit bool // see kvslots.WithAnyLimit
}

// Register parses {"count", "name"}.
func (f Fields) Register(p *Params) (err error) {
	if p.Count, err = f.between("count", 0, kvslots.MaxCount); err != nil || f.object["name"] == nil {
		return err
	}
	name, err := f.printable("name", kvslots.WithName)
	p.Name = &name
	return err
}

// Borrow parses {"ttl", "wait", "label"}. The TTL is at least a second.
func (f Fields) Borrow(p *Params) (err error) {
	if p.TTL, err = f.seconds("ttl", 1); err != nil {
		return err
	}
	if p.Wait, err = f.optionalSeconds("wait"); err != nil {
		return err
	}
	return f.label(p)
}

// label parses {"label"}.
func (f Fields) label(p *Params) (err error) {
	p.Label, err = f.printable("label", kvslots.WithLabel)
	return err
}

// printable returns an optional text for people, which must be one that an option accepts.
func (f Fields) printable(field string, option func(string) kvslots.Option) (string, error) {
	raw, ok := f.object[field]
	if !ok {
		return "", nil
	}
	text, ok := Text(raw)
	if !ok {
		text = "\xff" // what no option accepts
	}
	var o kvslots.Options
	return text, option(text)(&o)
}

// Return parses {"lease"}.
func (f Fields) Return(p *Params) (err error) {
	p.LeaseID, err = f.id("lease")
	return err
}

// RenewLease parses {"lease", "ttl"}. The TTL is at least a second.
func (f Fields) RenewLease(p *Params) (err error) {
	if err = f.Return(p); err == nil {
		p.TTL, err = f.seconds("ttl", 1)
	}
	return err
}

// FollowLease parses {"lease", "wait"}. The wait is at least a second.
func (f Fields) FollowLease(p *Params) (err error) {
	if err = f.Return(p); err == nil {
		p.Wait, err = f.seconds("wait", 1)
	}
	return err
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
	AnyLimit       bool   `json:"any_limit,omitempty"`
}

// Encode returns the JSON of the body.
func (r Request) Encode() []byte {
	body, _ := Encode(r) // cannot fail for ids, strings and numbers
	return body
}

// Seconds returns a duration in whole seconds, rounded up, for a request.
func Seconds(d time.Duration) int64 { return int64((d + time.Second - 1) / time.Second) }
