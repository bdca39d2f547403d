package wire

import (
	"time"

	"github.com/kvslots/kvslots/kvslots"
)

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
	left := int64(status.ExpiresIn / time.Second)
	return OwnedStatus{
		Key: key, Locked: true, Owner: status.Owner, Fence: status.Fence,
		AcquiredAt: Timestamp(status.AcquiredAt), ExpiresAt: Timestamp(status.ExpiresAt), TTLRemaining: &left,
	}
}

// Timestamp returns a time in UTC, truncated to seconds, in the format of ISO 8601, as
// Forrst's answers contain it.
func Timestamp(at time.Time) string { return at.UTC().Format("2006-01-02T15:04:05Z") }
