package peer

import (
	"time"

	"github.com/kvslots/kvslots/kvslots/internal/entry"
)

// Request is a caller's request: one of the types of this file, see Peer.serve. It contains only
// hashes of ids and tokens. Package kvslots computes these, and checks and clamps
// counts and durations.
type Request any

// Resource is a lock or a semaphore by name. The first borrow opens its pool.
type Resource struct {
	Pool    entry.Hash // of the dialect and the name
	Dialect string     // the namespace of the name, "" for the dflockd one
	Name    string     // 1 … entry.MaxName bytes; no secret
	Lock    bool       // true for a lock, whose limit is 1; false for a semaphore
	Limit   int        // 1 … entry.MaxLimit
}

func (r *Resource) terms() entry.Terms {
	t := entry.Terms{Name: r.Name, Dialect: r.Dialect, Lock: r.Lock, Limit: r.Limit}
	if t.Lock {
		t.Limit = 1
	}
	return t
}

// Borrow asks for the lowest free slot of a registered pool.
// Answer.Grant; ErrNoSlot, ErrNoPool, ErrMaxWaiters, ErrKeyReused, ErrUnavailable.
type Borrow struct {
	Pool, Lease entry.Hash // Lease is used in one Borrow only
	Nonce       entry.Hash // with a Request: what its caller derives the lease from
	Request     entry.Hash // the request key; zero: none. With it the borrow can be repeated
	TTL         time.Duration
	Wait        time.Duration // 0: refuse at once
	Label       string
	Origin      entry.Hash // for the caps on places; zero: none

	// LeaseOf returns Lease and Nonce of the borrow's claim n > 0; the fields are those of claim 0. So
	// the granted lease is not taken for a withdrawn claim, which the loss of the stream's
	// tail may bring back. Locks need no LeaseOf, since their tokens contain the fence.
	LeaseOf func(n int) (lease, nonce entry.Hash)
}

// Acquire asks for a lock or a slot of a semaphore.
// Answer.Grant; ErrNoSlot, ErrSessionGone, ErrLimitMismatch, ErrMaxLocks,
// ErrMaxLocksPerSession, ErrMaxLocksPerOrigin, ErrMaxWaiters, ErrMaxTombstones,
// ErrKeyReused, ErrUnavailable.
type Acquire struct {
	Resource
	Session      entry.Hash // the client session; zero for a lock that no session holds
	Lease, Nonce entry.Hash // Lease is used in one Acquire only
	Request      entry.Hash // see Borrow
	Owner        string     // of a lock that no session holds; no secret
	Label        string     // "": the session's
	Origin       entry.Hash // of a lock that no session holds, for the caps per origin; zero: none. A session has its own
	TTL          time.Duration
	Wait         time.Duration
}

// Enqueue asks for a lock or a slot of a semaphore if one is free, and otherwise for a
// place in the line, which any peer may serve. Answer.Grant or Answer.Queued; the
// errors of Acquire except ErrNoSlot, and ErrAlreadyEnqueued.
type Enqueue struct {
	Resource
	Session      entry.Hash
	Lease, Nonce entry.Hash
	Request      entry.Hash // see Borrow. A repeat is answered Queued while the ticket stands
	TTL          time.Duration
	Label        string // "": the session's
}

// Await waits for the slot that a session has enqueued for, and restarts the lease's
// ttl. Answer.Grant with the Nonce; ErrNoSlot, ErrNotEnqueued, ErrLeaseExpired,
// ErrSessionGone, ErrUnavailable.
type Await struct {
	Pool, Session entry.Hash
	Lock          bool
	Wait          time.Duration
}

// Held identifies a lease.
type Held struct {
	Pool, Lease entry.Hash
	Session     entry.Hash // the calling session, which must be alive; zero: no session
	Named       bool       // a lock or a semaphore: Lock and Fence must be the lease's
	Lock        bool
	Fence       uint64
}

// Return returns a lease. ErrNotHeld, ErrNoPool, ErrSessionGone, ErrUnavailable.
type Return struct{ Held }

// Abandon gives back a lease of which the caller of one answer was not told. It lives on if another caller
// may know of it. It must be called once for an answer, and is answered before the lease ends.
type Abandon struct {
	Pool, Lease entry.Hash
	Sharers     Sharers // Grant.Sharers
}

// Renew makes a lease last for TTL from now on. Answer.Grant; ErrNotHeld,
// ErrNoPool, ErrSessionGone, ErrUnavailable.
type Renew struct {
	Held
	TTL time.Duration
}

// ReleaseOwned discards an owner's lock that no session holds.
// ErrNotHeld, ErrNotOwner, ErrAlreadyReleased (by this owner, within the last
// minute), ErrUnavailable.
type ReleaseOwned struct {
	Pool  entry.Hash
	Owner string
	Force bool // release the lock of any owner
}

// Register registers a pool of Count slots, 0 … entry.MaxCount, or changes its
// count. Answer.Detail without lists, as read after the write; ErrMaxPools, ErrMaxTombstones,
// ErrUnavailable.
type Register struct {
	Pool   entry.Hash
	Count  int
	Origin entry.Hash // for the caps per origin; zero: none

	// Request is the request key; zero: none. A repeat, before a registration without the
	// key, is not written; with another Count it is answered ErrKeyReused.
	Request entry.Hash

	// Title is the pool's title from now on; nil: it keeps the one that it has.
	Title *string
}

// Delete deletes a pool. ErrUnavailable.
type Delete struct{ Pool entry.Hash }

// CreateSession creates a client session, which ends when it has been idle for Idle.
// An id must be used once. ErrMaxSessions, ErrMaxSessionsPerOrigin, ErrMaxTombstones,
// ErrUnavailable.
type CreateSession struct {
	Session entry.Hash
	Idle    time.Duration // twice the idle timeout that its client is told
	Origin  entry.Hash    // for the caps per origin; zero: none
	Label   string        // of its leases and tickets that have none
}

// Ping keeps a session alive. ErrSessionGone, ErrUnavailable.
type Ping struct{ Session entry.Hash }

// EndSession ends a session. ErrSessionGone, ErrUnavailable.
type EndSession struct{ Session entry.Hash }

// ReadStats reads Stats, as of an instant between the call and its answer. Of the
// registered pools, in the order of their ids, it reads the first MaxPools whose ids are
// above After; all of these if MaxPools is 0.
// Answer.Stats; ErrUnavailable.
type ReadStats struct {
	After    entry.Hash
	MaxPools int
}

// ReadPool reads what a pool holds: up to MaxHolders leases from a position on, and up to
// MaxWaiters tickets after the first so many of the line.
// Answer.Detail; ErrNoPool, ErrUnavailable.
type ReadPool struct {
	Pool                   entry.Hash
	From, After            int
	MaxHolders, MaxWaiters int
}

// ReadLease reads a lease. Answer.Detail with one of Holders; ErrNotHeld, ErrNoPool,
// ErrSessionGone, ErrUnavailable.
type ReadLease struct{ Held }

// ReadPlace reads what has become of a borrow with a request key. Answer.Detail with one of
// Waiters, or with one of Holders; ErrNoPool, ErrNotInLine, ErrUnavailable.
type ReadPlace struct{ Pool, Request entry.Hash }

// ReadPools reads the registered pools and the names in use, in an order, from after a cursor
// on. Answer.Stats with Pools and More only; ErrUnavailable.
type ReadPools struct {
	Order  Order
	After  Cursor // zero: from the first
	Max    int    // 1 or more
	Match  string // a part of the name or the title, or the beginning of the hash; "": all
	Holder string // a part of the label of a lease or a ticket; "": all
	Waited bool   // only the pools in whose lines tickets stand
}

// FindPools reads up to Max of the pools of ReadPools that a text names. Answer.Stats with Pools only; ErrUnavailable.
type FindPools struct {
	Title  string       // that pool's
	Names  []entry.Hash // the ids of the names
	Digits string       // the first of the id, two or more; "": the text names none by its id
	Max    int
}

// Order is an order of pools: what the first of them has most of.
type Order uint8

const (
	ByWaiting    Order = iota // the tickets that stand, and then the slots in use
	ByOldestWait              // the time that the first ticket has waited
	ByInUse                   // the slots in use
	ByExpired                 // the leases that have expired within rules.ExpiryMemory
)

// Cursor is the position of a pool in an order.
type Cursor struct {
	Measure uint64
	Pool    entry.Hash
}

// Evict ends the lease of a position, if it has the fence.
// Answer.Detail with the one of Holders that has ended; ErrNoPool, ErrNotHeld,
// ErrOtherHolder, ErrUnavailable.
type Evict struct {
	Pool     entry.Hash
	Position int
	Fence    uint64
	By       string // see entry.Mark
}

// SetOut takes a position out of service, or puts it back. The pool keeps its count, and the
// lease of the position goes on. With WholePool and a Name it opens a name that is not in use.
// Answer.Detail without lists; ErrNoPool, ErrNoPosition, ErrMaxLocks,
// ErrMaxLocksPerOrigin, ErrUnavailable.
type SetOut struct {
	Pool   entry.Hash
	Origin entry.Hash // for which a name counts of which anything is out of service; zero: none
	Name   string     // of a lock or a semaphore of sessions; "": it is not known
	By     string     // see entry.ConfigValue
	entry.Out
	InService bool
}

// SetLimit sets the limit of a semaphore in use, 1 … entry.MaxLimit, for its leases and its line too.
// Answer.Detail without lists; ErrNoPool, ErrLimitMismatch (it is no semaphore), ErrUnavailable.
type SetLimit struct {
	Pool  entry.Hash
	Limit int
	By    string // see entry.ConfigValue
}

// Confirm is answered when a write that was sent at most confirmedFor before the request,
// or later, is acknowledged and in the view. ErrUnavailable.
type Confirm struct{}
