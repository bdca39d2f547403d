package kvslots

import (
	"context"

	"github.com/kvslots/kvslots/kvslots/internal/peer"
	"github.com/kvslots/kvslots/kvslots/reads"
)

// The types of what is read, which gateways send as JSON.
type (
	State        = reads.State
	Stats        = reads.Stats
	PoolStats    = reads.Pool
	PoolDetail   = reads.Detail
	HolderStats  = reads.Holder
	WaiterStats  = reads.Waiter
	OutOfService = reads.OutOfService
)

// PoolPage selects the pools that StatsPage lists: the first Max pools whose hash is
// greater than After. If Max is 0, it lists all of them.
type PoolPage struct {
	After string // the Hash of a PoolStats as text, or "" to begin with the first pool
	Max   int
}

// Stats describes the contents of the bucket at an instant between the call and its
// return.
//
// The errors are ErrUnavailable, ErrClosed and context.Cause(ctx).
func (s *Store) Stats(ctx context.Context) (Stats, error) { return s.StatsPage(ctx, PoolPage{}) }

// StatsPage is like Stats, but lists one page of the pools. It returns a *RangeError if
// page.After is not a hash.
func (s *Store) StatsPage(ctx context.Context, page PoolPage) (Stats, error) {
	read := peer.ReadStats{MaxPools: page.Max}
	if page.After != "" && read.After.UnmarshalText([]byte(page.After)) != nil {
		return Stats{}, &RangeError{"pools_after", "the hash of a pool"}
	}
	a, err := s.bucket.Do(ctx, read)
	if err != nil {
		return Stats{}, err
	}
	return *a.Stats, nil
}
