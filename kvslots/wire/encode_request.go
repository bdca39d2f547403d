package wire

import (
	"encoding/json"
	"time"

	"github.com/google/uuid"
)

// Request is the body of any request, as a client writes it. Fields that are nil or zero
// are left out. Times are in seconds.
type Request struct {
	// About a pool. Over HTTP the path contains the id.
	ID    *uuid.UUID `json:"id,omitempty"`
	Count *int       `json:"count,omitempty"`
	Lease *uuid.UUID `json:"lease,omitempty"`
	TTL   int64      `json:"ttl,omitempty"`
	Wait  int64      `json:"wait,omitempty"`

	// About a session. Over HTTP the path, or SessionHeader, contains the session, and the
	// path the key.
	Session        string `json:"session,omitempty"`
	Key            string `json:"key,omitempty"`
	Limit          int    `json:"limit,omitempty"`
	Token          string `json:"token,omitempty"`
	LeaseTTL       int64  `json:"lease_ttl_s,omitempty"`
	AcquireTimeout *int64 `json:"acquire_timeout_s,omitempty"`
	WaitTimeout    *int64 `json:"timeout_s,omitempty"`
}

// Encode returns the JSON of the body.
func (r Request) Encode() []byte {
	body, _ := json.Marshal(r) // cannot fail for ids, strings and numbers
	return body
}

// Seconds returns a duration in whole seconds, rounded up, for a request.
func Seconds(d time.Duration) int64 { return int64((d + time.Second - 1) / time.Second) }
