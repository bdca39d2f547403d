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

// NewSession describes a session, with the idle timeout that its client is
// told.
func NewSession(id string, idle time.Duration) Session {
	return Session{ID: id, IdleTimeout: int64(idle / time.Second)}
}

// What Grant.Status and Standing.Status say.
const (
	GrantOK       = "ok"
	GrantAcquired = "acquired" // by an enqueue
	GrantQueued   = "queued"
	GrantTimeout  = "timeout"
)

// Grant is the answer to who got what it asked for.
type Grant struct {
	Status   string `json:"status"`
	Token    string `json:"token"`
	LeaseTTL int64  `json:"lease_ttl_s"`
}

// NewGrant describes a grant. The promise is rounded down, as a Lease's is.
func NewGrant(status string, grant kvslots.Grant) Grant {
	return Grant{Status: status, Token: grant.Token, LeaseTTL: int64(grant.TTL / time.Second)}
}

// Standing is the answer to who did not.
type Standing struct {
	Status string `json:"status"`
}

// Renewed is the answer to a renewal.
type Renewed struct {
	Remaining int64 `json:"remaining_s"`
}

// NewRenewed describes what is left after a renewal, rounded down.
func NewRenewed(left time.Duration) Renewed { return Renewed{Remaining: int64(left / time.Second)} }

// Nothing is the answer where there is nothing to say and the door cannot be
// silent.
type Nothing struct{}
