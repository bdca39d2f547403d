package kvslots

import (
	"context"
	"encoding/binary"
	"time"

	"github.com/kvslots/kvslots/kvslots/internal/entry"
	"github.com/kvslots/kvslots/kvslots/internal/peer"
)

// Stats describes the contents of the bucket at one instant.
type Stats struct {
	Sessions int         // live sessions
	Names    []NameStats // locks and semaphores that are held or waited for, sorted by key
	Idle     []IdleName  // locks and semaphores that were last held or waited for within the last minute, sorted by key
	Pools    []PoolStats // registered pools, sorted by hash
	More     bool        // whether there are pools after the last of Pools
}

// PoolPage selects the pools that StatsPage lists: the first Max pools whose hash is
// greater than After. If Max is 0, it lists all of them.
type PoolPage struct {
	After string // the Hash of a PoolStats, or "" to begin with the first pool
	Max   int
}

// NameStats is a lock or semaphore that is held or waited for.
type NameStats struct {
	Resource
	Owned   bool          // whether it is an owned lock: see LockOwned
	Holders []HolderStats // sorted by position
	Waiters []WaiterStats // in the order of the line
}

// HolderStats is a live lease.
type HolderStats struct {
	Owner     uint64 // identifies the session or the owner, but is not secret; below 2^53
	Position  int
	Fence     uint64
	Age       time.Duration // since it was granted
	ExpiresIn time.Duration // at least 0
}

// WaiterStats is a place in a line.
type WaiterStats struct {
	Owner  uint64 // see HolderStats
	Waited time.Duration
}

// IdleName is a lock or semaphore that is no longer held or waited for.
type IdleName struct {
	Resource
	Owned bool // see NameStats
	Idle  time.Duration
}

// PoolStats is a registered pool.
type PoolStats struct {
	Hash string // of the pool's id; not secret, since borrowing requires the id itself
	State
	OldestWait time.Duration // how long the first borrower in line has waited
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

// ownerNumber returns the first 53 bits of the hash of a session or an owner, which is not
// secret.
func ownerNumber(hash entry.Hash) uint64 { return binary.BigEndian.Uint64(hash[:8]) >> 11 }
