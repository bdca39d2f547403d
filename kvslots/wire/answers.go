package wire

import (
	"strconv"
	"time"

	"github.com/google/uuid"

	"github.com/kvslots/kvslots/kvslots"
)

// Pool is the answer to a registration or an inspection of a pool.
type Pool struct {
	ID        uuid.UUID `json:"id"`
	Count     int       `json:"count"`
	InUse     int       `json:"in_use"`
	Available int       `json:"available"`
	Waiting   int       `json:"waiting"`
}

// NewPool returns the answer for the pool id in the given state.
func NewPool(id uuid.UUID, state kvslots.State) Pool {
	return Pool{
		ID:        id,
		Count:     state.Count,
		InUse:     state.InUse,
		Available: state.Available(),
		Waiting:   state.Waiting,
	}
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
		Lease:         lease.ID(),
		Position:      lease.Position(),
		ExpiresAtUnix: lease.ExpiresAt().Unix(),
		ExpiresIn:     int64(lease.TTL() / time.Second),
		Fence:         lease.Fence(),
	}
}

// Waited returns the value of WaitedHeader for a lease whose request arrived at the
// given time.
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

// Failure is the answer to a request that failed.
type Failure struct {
	Error  string `json:"error"`
	Detail string `json:"detail,omitempty"`
}
