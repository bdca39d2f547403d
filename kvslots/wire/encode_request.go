package wire

import (
	"encoding/json"
	"time"

	"github.com/google/uuid"
)

// PoolRequest is the body of any request about a pool, as a client writes it. Fields
// that are nil or 0 are left out.
type PoolRequest struct {
	ID    *uuid.UUID `json:"id,omitempty"` // over NATS; over HTTP the path contains the id
	Count *int       `json:"count,omitempty"`
	Lease *uuid.UUID `json:"lease,omitempty"`
	TTL   int64      `json:"ttl,omitempty"`  // seconds
	Wait  int64      `json:"wait,omitempty"` // seconds
}

// Encode returns the JSON of the body.
func (r PoolRequest) Encode() []byte {
	body, _ := json.Marshal(r) // cannot fail for ids and numbers
	return body
}

// SessionRequest is the body of any request about a session, as a client writes it
// over NATS. Fields that are nil or zero are left out.
type SessionRequest struct {
	Session string `json:"session,omitempty"`
	Key     string `json:"key,omitempty"`
	Limit   int    `json:"limit,omitempty"`
	Token   string `json:"token,omitempty"`
	TTL     int64  `json:"lease_ttl_s,omitempty"`       // seconds
	Acquire *int64 `json:"acquire_timeout_s,omitempty"` // seconds
	Wait    *int64 `json:"timeout_s,omitempty"`         // seconds
}

// Encode returns the JSON of the body.
func (r SessionRequest) Encode() []byte {
	body, _ := json.Marshal(r) // cannot fail for strings and numbers
	return body
}

// Seconds returns a duration in whole seconds, rounded up, as requests contain it.
func Seconds(d time.Duration) int64 { return int64((d + time.Second - 1) / time.Second) }
