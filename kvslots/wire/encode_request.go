package wire

import (
	"encoding/json"
	"strconv"
	"time"

	"github.com/google/uuid"
)

// PoolRequest is the body of any request about a pool, as a client writes it. Fields
// that are nil or 0 are left out.
type PoolRequest struct {
	ID    *uuid.UUID // over NATS; over HTTP the path contains the id
	Count *int
	Lease *uuid.UUID
	TTL   int64 // seconds
	Wait  int64 // seconds
}

// Encode returns the JSON of the body.
func (r PoolRequest) Encode() []byte {
	b := append(make([]byte, 0, 128), '{')
	if r.ID != nil {
		b = appendID(b, `"id":"`, *r.ID)
	}
	if r.Count != nil {
		b = appendInt(b, `"count":`, int64(*r.Count))
	}
	if r.Lease != nil {
		b = appendID(b, `"lease":"`, *r.Lease)
	}
	if r.TTL != 0 {
		b = appendInt(b, `"ttl":`, r.TTL)
	}
	if r.Wait != 0 {
		b = appendInt(b, `"wait":`, r.Wait)
	}
	if last := len(b) - 1; b[last] == ',' {
		b = b[:last]
	}
	return append(b, '}')
}

func appendID(b []byte, field string, id uuid.UUID) []byte {
	return append(append(append(b, field...), id.String()...), `",`...)
}

func appendInt(b []byte, field string, n int64) []byte {
	return append(strconv.AppendInt(append(b, field...), n, 10), ',')
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
