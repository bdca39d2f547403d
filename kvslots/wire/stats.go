package wire

import (
	"github.com/kvslots/kvslots/kvslots"
	"github.com/kvslots/kvslots/kvslots/reads"
)

// MaxPools is the maximal number of pools in one page of Stats.
const MaxPools = 1000

// maxPlaces is the maximal number of holders, and of waiters, that Stats lists for each lock
// or semaphore.
const maxPlaces = 1000

// Stats is the answer to GET /v1/stats (gateway/README.md, "Statistics"). queue, held,
// fence, age, dialect, pools and pools_after are additions to the fields of dflockd.
type Stats struct {
	Connections    int              `json:"connections"`
	Locks          []LockStats      `json:"locks"`
	Semaphores     []SemaphoreStats `json:"semaphores"`
	IdleLocks      []reads.Idle     `json:"idle_locks"`
	IdleSemaphores []reads.Idle     `json:"idle_semaphores"`
	Pools          []PoolStats      `json:"pools"`
	PoolsAfter     string           `json:"pools_after,omitempty"` // where the next page begins
}

// LockStats is a lock that is held or has waiters. Owner is 0 if the lock is not held.
type LockStats struct {
	Key            string         `json:"key"`
	Dialect        string         `json:"dialect,omitempty"`
	Owner          uint64         `json:"owner_conn_id"`
	LeaseExpiresIn reads.Duration `json:"lease_expires_in_s"`
	Waiters        int            `json:"waiters"`
	Fence          uint64         `json:"fence"`
	Age            reads.Duration `json:"age_s"`
	Queue          []WaitingStats `json:"queue"`
}

// SemaphoreStats is a semaphore that has holders or waiters.
type SemaphoreStats struct {
	Key     string         `json:"key"`
	Limit   int            `json:"limit"`
	Holders int            `json:"holders"`
	Waiters int            `json:"waiters"`
	Held    []HeldStats    `json:"held"`
	Queue   []WaitingStats `json:"queue"`
}

// HeldStats is one held slot of a semaphore.
type HeldStats struct {
	Position       int            `json:"position"`
	Owner          uint64         `json:"owner_conn_id"`
	Fence          uint64         `json:"fence"`
	Age            reads.Duration `json:"age_s"`
	LeaseExpiresIn reads.Duration `json:"lease_expires_in_s"`
}

// WaitingStats is a waiter in a line. Positions count from 1.
type WaitingStats struct {
	Position int            `json:"position"`
	Waited   reads.Duration `json:"waited_s"`
	Owner    uint64         `json:"owner_conn_id"`
}

// PoolStats is a pool. Pool is the hash of the pool's id.
type PoolStats struct {
	Pool reads.Hash `json:"pool"`
	reads.State
	OldestWait reads.Duration `json:"oldest_wait_s"`
}

// NewStats returns the answer for stats. clients is the number of connected clients
// without a session.
func NewStats(stats kvslots.Stats, clients int) Stats {
	s := Stats{
		Connections: stats.Sessions + clients,
		Locks:       []LockStats{}, Semaphores: []SemaphoreStats{},
		IdleLocks: []reads.Idle{}, IdleSemaphores: []reads.Idle{},
		Pools: []PoolStats{},
	}
	for _, name := range stats.Names {
		if name.Type == reads.TypeLock {
			s.Locks = append(s.Locks, newLockStats(&name))
		} else {
			s.Semaphores = append(s.Semaphores, newSemaphoreStats(&name))
		}
	}
	for _, name := range stats.Idle {
		if name.Type == reads.TypeLock {
			s.IdleLocks = append(s.IdleLocks, name)
		} else {
			s.IdleSemaphores = append(s.IdleSemaphores, name)
		}
	}
	for _, pool := range stats.Pools {
		s.Pools = append(s.Pools, PoolStats{pool.Hash, pool.State, pool.OldestWait})
	}
	if stats.More {
		s.PoolsAfter = s.Pools[len(s.Pools)-1].Pool.String()
	}
	return s
}

func newLockStats(name *reads.Detail) LockStats {
	lock := LockStats{Key: name.Key, Dialect: name.Dialect, Waiters: len(name.Waiters), Queue: newQueue(name.Waiters)}
	if len(name.Holders) > 0 {
		holder := newHeldStats(name.Holders[0])
		lock.Owner, lock.Fence, lock.Age, lock.LeaseExpiresIn = holder.Owner, holder.Fence, holder.Age, holder.LeaseExpiresIn
	}
	return lock
}

func newSemaphoreStats(name *reads.Detail) SemaphoreStats {
	held := []HeldStats{}
	for _, holder := range name.Holders[:min(len(name.Holders), maxPlaces)] {
		held = append(held, newHeldStats(holder))
	}
	return SemaphoreStats{
		Key: name.Key, Limit: name.Count,
		Holders: len(name.Holders), Waiters: len(name.Waiters),
		Held: held, Queue: newQueue(name.Waiters),
	}
}

func newHeldStats(holder reads.Holder) HeldStats {
	return HeldStats{
		Position: holder.Position, Owner: holder.Owner, Fence: holder.Fence,
		Age: holder.Age, LeaseExpiresIn: holder.ExpiresIn,
	}
}

func newQueue(waiters []reads.Waiter) []WaitingStats {
	queue := []WaitingStats{}
	for i, waiter := range waiters[:min(len(waiters), maxPlaces)] {
		queue = append(queue, WaitingStats{Position: i + 1, Waited: waiter.Waited, Owner: waiter.Owner})
	}
	return queue
}
