package wire

import (
	"time"

	"github.com/kvslots/kvslots/kvslots"
)

// Session is the answer to the creation of a session.
type Session struct {
	ID          string `json:"session_id"`
	IdleTimeout int64  `json:"idle_timeout_s"`
}

// NewSession returns the answer for a new session. idle is the time within which the client
// must ping or use it again.
func NewSession(id string, idle time.Duration) Session {
	return Session{ID: id, IdleTimeout: int64(idle / time.Second)}
}

// Values of Grant.Status and NotGranted.Status.
const (
	GrantOK       = "ok"
	GrantAcquired = "acquired" // by an enqueue
	GrantQueued   = "queued"
	GrantTimeout  = "timeout"
)

// Grant is the answer to a request that was granted a lock or a semaphore slot.
type Grant struct {
	Status   string `json:"status"`
	Token    string `json:"token"`
	LeaseTTL int64  `json:"lease_ttl_s"`
}

// NewGrant returns the answer for a grant, with the lease's time in whole seconds,
// rounded down, as in a Lease.
func NewGrant(status string, grant kvslots.Grant) Grant {
	return Grant{Status: status, Token: grant.Token, LeaseTTL: int64(grant.TTL / time.Second)}
}

// NotGranted is the answer to a request that was not granted, or not yet.
type NotGranted struct {
	Status string `json:"status"`
}

// Renewed is the answer to a renewal.
type Renewed struct {
	Remaining int64 `json:"remaining_s"`
}

// NewRenewed returns the answer for a lease with the given time left, rounded down.
func NewRenewed(left time.Duration) Renewed { return Renewed{Remaining: int64(left / time.Second)} }

// Empty is the answer without content, for transports that need a body.
type Empty struct{}
