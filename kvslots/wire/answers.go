package wire

import (
	"strconv"
	"time"

	"github.com/google/uuid"

	"github.com/kvslots/kvslots/kvslots"
)

// Pool is the answer to a registration and an inspection.
type Pool struct {
	ID        uuid.UUID `json:"id"`
	Count     int       `json:"count"`
	InUse     int       `json:"in_use"`
	Available int       `json:"available"`
	Waiting   int       `json:"waiting"`
}

// NewPool describes the pool id in the given state.
func NewPool(id uuid.UUID, state kvslots.State) Pool {
	return Pool{
		ID:        id,
		Count:     state.Count,
		InUse:     state.InUse,
		Available: state.Available(),
		Waiting:   state.Waiting,
	}
}

// Lease is the answer to a borrow, and to a renewal.
type Lease struct {
	Lease         uuid.UUID `json:"lease"`
	Position      int       `json:"position"`
	ExpiresAtUnix int64     `json:"expires_at_unix"`
	ExpiresIn     int64     `json:"expires_in"` // seconds
	Fence         uint64    `json:"fence"`

	// Waited is what a client reads in WaitedHeader; 0 if it is not there.
	Waited time.Duration `json:"-"`
}

// NewLease describes a lease that was just granted or renewed.
func NewLease(lease *kvslots.Lease) Lease {
	return Lease{
		Lease:         lease.ID(),
		Position:      lease.Position(),
		ExpiresAtUnix: lease.ExpiresAt().Unix(),
		ExpiresIn:     int64(lease.TTL() / time.Second),
		Fence:         lease.Fence(),
	}
}

// Waited is what WaitedHeader says of a lease whose request arrived at that time.
func Waited(lease *kvslots.Lease, arrived time.Time) string {
	began := lease.ExpiresAt().Add(-lease.TTL())
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

// Failure is the answer to whatever failed.
type Failure struct {
	Error  string `json:"error"`
	Detail string `json:"detail,omitempty"`
}
