package wire

import (
	"github.com/google/uuid"

	"github.com/kvslots/kvslots/kvslots"
	"github.com/kvslots/kvslots/kvslots/reads"
)

// PoolList is a page of pools.
type PoolList struct {
	Pools []reads.Pool `json:"pools"`
	Next  string       `json:"next,omitempty"` // where the next page begins; "": this is the last
}

// Inspection is the answer to an inspection of a pool.
type Inspection struct {
	Pool
	Hash         reads.Hash           `json:"hash"`
	Name         string               `json:"name,omitempty"`
	Paused       bool                 `json:"paused,omitempty"`
	PauseReason  string               `json:"pause_reason,omitempty"`
	OutOfService []reads.OutOfService `json:"out_of_service,omitempty"`
}

// Evicted is the answer to the end of a lease by an operator.
type Evicted struct {
	Evicted reads.Holder `json:"evicted"`
}

// Place is the answer to the question of a borrower for its place: one of the two.
type Place struct {
	Waiting *reads.Waiter `json:"waiting,omitempty"`
	Lease   *reads.Holder `json:"lease,omitempty"`
}

// NewPoolList returns the answer for a page of pools.
func NewPoolList(pools []reads.Pool, next string) PoolList {
	if pools == nil {
		pools = []reads.Pool{}
	}
	return PoolList{pools, next}
}

// NewInspection returns the answer for the pool id.
func NewInspection(id uuid.UUID, d *kvslots.PoolDetail) Inspection {
	return Inspection{Pool{id, d.State}, d.Hash, d.Name, d.Paused, d.PauseReason, d.OutOfService}
}
