package wire

import (
	"strconv"
	"time"

	"github.com/google/uuid"

	"github.com/kvslots/kvslots/kvslots"
	"github.com/kvslots/kvslots/kvslots/reads"
)

// Pool is the answer to a registration or an inspection of a pool.
type Pool struct {
	ID uuid.UUID `json:"id"`
	reads.State
}

// Lease is the answer to a borrow or a renewal.
type Lease struct {
	Lease         uuid.UUID `json:"lease"`
	Position      int       `json:"position"`
	ExpiresAtUnix int64     `json:"expires_at_unix"`
	ExpiresIn     int64     `json:"expires_in"` // seconds
	Fence         uint64    `json:"fence"`

	// Waited is the value of WaitedHeader, which a client sets; 0 without the header.
	Waited time.Duration `json:"-"`
}

// NewLease returns the answer for a lease that was just granted or renewed.
func NewLease(lease *kvslots.Lease) Lease {
	return Lease{
		Lease: lease.ID(), Position: lease.Position(), Fence: lease.Fence(),
		ExpiresAtUnix: lease.ExpiresAt().Unix(), ExpiresIn: int64(lease.TTL() / time.Second),
	}
}

// Waited returns the value of WaitedHeader for a lease that began at an instant, and whose
// request arrived at another.
func Waited(began, arrived time.Time) string {
	return strconv.FormatInt(max(0, began.Sub(arrived).Milliseconds()), 10)
}

// Returned is the answer to a return.
type Returned struct {
	Returned bool `json:"returned"`
}

// Deleted is the answer to a deletion.
type Deleted struct {
	Deleted bool `json:"deleted"`
}

// Failure is the answer to a request that failed.
type Failure struct {
	Error  string `json:"error"`
	Detail string `json:"detail,omitempty"`
}

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

// OwnedReleased is the result of Forrst's functions release and force-release.
type OwnedReleased struct {
	Released bool   `json:"released"`
	Key      string `json:"key"`
	Forced   bool   `json:"forced,omitempty"`
}

// OwnedStatus is the result of Forrst's function status. A lock that is not held has only
// the first two fields.
type OwnedStatus struct {
	Key          string `json:"key"`
	Locked       bool   `json:"locked"`
	Owner        string `json:"owner,omitempty"`
	AcquiredAt   string `json:"acquired_at,omitempty"`
	ExpiresAt    string `json:"expires_at,omitempty"`
	TTLRemaining *int64 `json:"ttl_remaining,omitempty"` // whole seconds
	Fence        uint64 `json:"fence,omitempty"`
}

// NewOwnedStatus returns the result for the lock key with the given status.
func NewOwnedStatus(key string, status kvslots.OwnedStatus) OwnedStatus {
	if !status.Held {
		return OwnedStatus{Key: key}
	}
	return OwnedStatus{
		Key: key, Locked: true, Owner: status.Owner, Fence: status.Fence,
		AcquiredAt: Timestamp(status.AcquiredAt), ExpiresAt: Timestamp(status.ExpiresAt),
		TTLRemaining: new(int64(status.ExpiresIn / time.Second)),
	}
}

// Timestamp returns a time in UTC, truncated to seconds, in the format of ISO 8601, as
// Forrst's answers contain it.
func Timestamp(at time.Time) string { return at.UTC().Format("2006-01-02T15:04:05Z") }
