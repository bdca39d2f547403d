package kvslots

import (
	"context"
	"encoding/binary"
	"time"

	"github.com/kvslots/kvslots/kvslots/internal/entry"
	"github.com/kvslots/kvslots/kvslots/internal/peer"
)

// Stats is what there is, at one instant.
type Stats struct {
	Sessions int         // live ones, over all gateways
	Names    []NameStats // locks and semaphores that are held or waited for, by key
	Idle     []IdleName  // those that were within the last minute, by key
	Pools    []PoolStats // registered pools, by hash
	More     bool        // there are pools after the last one
}

// PoolPage says which pools Stats lists: the first Max of those whose hash comes after
// After. 0 means all pools.
type PoolPage struct {
	After string // the Hash of a PoolStats; "" means before the first one
	Max   int
}

// NameStats is a lock or semaphore that is held or waited for.
type NameStats struct {
	Resource
	Owned   bool          // a lock without a session: see LockOwned
	Holders []HolderStats // by position
	Waiters []WaiterStats // in the order of the line
}

// HolderStats is a lease.
type HolderStats struct {
	Owner     uint64 // tells sessions apart; below 2^53
	Position  int
	Fence     uint64
	Age       time.Duration // since it was granted
	ExpiresIn time.Duration // at least 0
}

// WaiterStats is a place in a line.
type WaiterStats struct {
	Owner  uint64 // as a holder's
	Waited time.Duration
}

// IdleName is a lock or semaphore that is not held or waited for any more.
type IdleName struct {
	Resource
	Owned bool // as in NameStats
	Idle  time.Duration
}

// PoolStats is a registered pool. Its hash is no secret: it does not suffice to borrow.
type PoolStats struct {
	Hash string
	State
	OldestWait time.Duration
}

// Stats returns what there is, at an instant between the call and its return.
//
// The errors are ErrUnavailable, ErrClosed and what ctx ends with.
func (s *Store) Stats(ctx context.Context) (Stats, error) { return s.StatsPage(ctx, PoolPage{}) }

// StatsPage is Stats with a page of the pools. A *RangeError reports an invalid page.
func (s *Store) StatsPage(ctx context.Context, page PoolPage) (Stats, error) {
	read := peer.ReadStats{MaxPools: page.Max}
	if page.After != "" && read.After.UnmarshalText([]byte(page.After)) != nil {
		return Stats{}, &RangeError{"pools_after", "the hash of a pool"}
	}
	a, err := s.bucket.Do(ctx, read)
	if err != nil {
		return Stats{}, err
	}
	stats := Stats{Sessions: a.Stats.Sessions, More: a.Stats.More}
	for _, n := range a.Stats.Names {
		stats.Names = append(stats.Names, nameStats(n))
	}
	for _, n := range a.Stats.Idle {
		stats.Idle = append(stats.Idle, IdleName{resourceOf(n.Terms), isOwned(n.Terms), n.Idle})
	}
	for _, p := range a.Stats.Pools {
		stats.Pools = append(stats.Pools, PoolStats{Hash: p.Pool.String(), State: State(p.State), OldestWait: p.OldestWait})
	}
	return stats, nil
}

func nameStats(n peer.NameStats) NameStats {
	stats := NameStats{Resource: resourceOf(n.Terms), Owned: isOwned(n.Terms)}
	for _, h := range n.Holders {
		owner := h.Session
		if stats.Owned {
			owner = ownerHash(h.Owner)
		}
		stats.Holders = append(stats.Holders, HolderStats{
			Owner: ownerNumber(owner), Position: h.Position, Fence: h.Fence, Age: h.Age, ExpiresIn: h.EndsIn,
		})
	}
	for _, w := range n.Waiters {
		stats.Waiters = append(stats.Waiters, WaiterStats{Owner: ownerNumber(w.Session), Waited: w.Waited})
	}
	return stats
}

func resourceOf(t entry.Terms) Resource {
	if t.Lock {
		return Lock(t.Name)
	}
	return Semaphore(t.Name, t.Limit)
}

func isOwned(t entry.Terms) bool { return t.Dialect == ownedDialect }

// ownerNumber tells sessions apart. It is no more of a secret than the hash that
// it is taken from.
func ownerNumber(session entry.Hash) uint64 { return binary.BigEndian.Uint64(session[:8]) >> 11 }
