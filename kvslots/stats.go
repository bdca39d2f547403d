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
	Owner     uint64 // identifies the session or the owner, but is not secret; below 2^53. 0: a lease of Borrow
	Position  int
	Fence     uint64
	Age       time.Duration // since it was granted
	ExpiresIn time.Duration // at least 0
	Label     string        // see WithLabel
}

// WaiterStats is a place in a line.
type WaiterStats struct {
	Owner  uint64 // see HolderStats
	Place  int    // from 1
	Waited time.Duration
	Label  string // see WithLabel
	Away   bool   // no caller waits: the place is kept for a repeat, for Config.ResumeGrace, and not served
}

// IdleName is a lock or semaphore that is no longer held or waited for.
type IdleName struct {
	Resource
	Owned bool // see NameStats
	Idle  time.Duration
}

// PoolStats is a pool: a registered one, or that of a lock or a semaphore.
type PoolStats struct {
	Hash     string   // of the pool's id; not secret, since borrowing requires the id itself
	Name     string   // of a registered pool: see WithName
	Resource Resource // of a lock or a semaphore; zero for a registered pool
	Owned    bool     // see NameStats
	State
	OldestWait time.Duration  // how long the first borrower in line has waited
	Expired    int            // leases that have expired within the last hour, as far as this Store has seen
	OutCount   int            // positions out of service, in use or not
	OutList    []OutOfService // sorted by position
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
		stats.Names = append(stats.Names, NameStats{resourceOf(n.Terms), isOwned(n.Terms), holderStats(&n), waiterStats(&n)})
	}
	for _, n := range a.Stats.Idle {
		stats.Idle = append(stats.Idle, IdleName{resourceOf(n.Terms), isOwned(n.Terms), n.Idle})
	}
	for _, p := range a.Stats.Pools {
		stats.Pools = append(stats.Pools, poolStats(&p))
	}
	return stats, nil
}

func poolStats(p *peer.PoolStats) PoolStats {
	stats := PoolStats{
		Hash: p.Pool.String(), Name: p.Title, State: p.State, OldestWait: p.OldestWait, Expired: p.Expired,
	}
	if p.Terms.Named() {
		stats.Resource, stats.Owned = resourceOf(p.Terms), isOwned(p.Terms)
	}
	for _, o := range p.Out {
		if stats.OutList = append(stats.OutList, OutOfService(o)); o.Position != WholePool {
			stats.OutCount++
		}
	}
	return stats
}

func holderStats(d *peer.PoolDetail) (list []HolderStats) {
	for _, h := range d.Holders {
		owner := h.Session
		if isOwned(d.Terms) {
			owner = ownerHash(h.Owner)
		}
		list = append(list, HolderStats{
			Owner: ownerNumber(owner), Position: h.Position, Fence: h.Fence, Age: h.Age, ExpiresIn: h.EndsIn, Label: h.Label,
		})
	}
	return list
}

func waiterStats(d *peer.PoolDetail) (list []WaiterStats) {
	for _, w := range d.Waiters {
		list = append(list, WaiterStats{Owner: ownerNumber(w.Session), Place: w.Place, Waited: w.Waited, Label: w.Label, Away: w.Away})
	}
	return list
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
