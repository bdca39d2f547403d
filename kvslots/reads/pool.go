package reads

import "github.com/kvslots/kvslots/kvslots/internal/entry"

// Hash is that of a pool's id, or of the name of a lock or a semaphore. It is not secret, and encoded as 32
// hexadecimal digits.
type Hash = entry.Hash

// The values of Pool.Type.
const (
	TypePool      = "pool"
	TypeLock      = "lock"
	TypeSemaphore = "semaphore"
)

// Pool is a registered pool, or that of a lock or a semaphore.
type Pool struct {
	Hash    Hash   `json:"hash"`
	Type    string `json:"type"`              // see TypePool
	Name    string `json:"name,omitempty"`    // of a registered pool: see kvslots.WithName
	Key     string `json:"key,omitempty"`     // of a lock or a semaphore
	Dialect string `json:"dialect,omitempty"` // "forrst": an owned lock, which may have the same key as one of sessions
	State
	OldestWait  Duration `json:"oldest_wait_s"` // how long the first borrower in line has waited
	Expired     int      `json:"expired"`       // leases that have expired within the last hour, as far as this peer has seen
	Out         int      `json:"out"`           // positions out of service, in use or not
	Paused      bool     `json:"paused"`        // the whole pool is out of service
	PauseReason string   `json:"pause_reason,omitempty"`
}

// OutOfService is a position that is out of service.
type OutOfService struct {
	Position int    `json:"position"`
	Reason   string `json:"reason"` // 0 to kvslots.MaxLabel printable characters
}

// Holder is a live lease, without its id.
type Holder struct {
	Position  int      `json:"position"`
	Label     string   `json:"label"` // see kvslots.WithLabel
	Fence     uint64   `json:"fence"`
	Age       Duration `json:"age_s"` // since it was granted
	ExpiresIn Duration `json:"expires_in_s"`
	Owner     uint64   `json:"owner_conn_id,omitempty"` // identifies the session or the owner, but is not secret; below 2^53. 0: a lease of Borrow
	OwnerName string   `json:"-"`                       // of an owned lock; clients do not learn it
}

// Waiter is a place in a line.
type Waiter struct {
	Place  int      `json:"place"` // from 1
	Label  string   `json:"label"` // see kvslots.WithLabel
	Waited Duration `json:"waited_s"`
	Owner  uint64   `json:"owner_conn_id,omitempty"` // see Holder
	Away   bool     `json:"-"`                       // no caller waits: the place is kept for a repeat, and not served
}

// Detail is a pool, a page of who holds its slots, and a page of who waits for them. A list that was not asked for is nil.
type Detail struct {
	Pool
	OutOfService []OutOfService `json:"out_of_service"`       // sorted by position
	Holders      []Holder       `json:"leases,omitzero"`      // sorted by position
	NextFrom     int            `json:"next_from,omitempty"`  // the position where the next page of Holders begins; 0: this is the last
	Waiters      []Waiter       `json:"line,omitzero"`        // in the order of the line
	NextAfter    int            `json:"next_after,omitempty"` // the place after which the next page of Waiters begins; 0: this is the last
}

// Idle is a lock or a semaphore that is no longer held or waited for.
type Idle struct {
	Type    string   `json:"-"` // see TypePool
	Key     string   `json:"key"`
	Dialect string   `json:"dialect,omitempty"` // see Pool
	Idle    Duration `json:"idle_s"`
}

// Stats is what a bucket has at one instant.
type Stats struct {
	Sessions int      // client sessions that live
	Names    []Detail // locks and semaphores that are held or waited for, sorted by key
	Idle     []Idle   // those that were last held or waited for within the last minute, sorted by key
	Pools    []Pool   // registered pools, sorted by hash
	More     bool     // there are pools after the last of Pools
}
