package kvslots

import (
	"time"

	"github.com/google/uuid"

	"github.com/kvslots/kvslots/kvslots/internal/entry"
	"github.com/kvslots/kvslots/kvslots/internal/rules"
)

// Lease is one held slot.
type Lease struct {
	id       uuid.UUID
	position int
	fence    uint64
	ttl      time.Duration
	deadline time.Time
}

// newLease is a lease that is granted now.
func newLease(id uuid.UUID, s *rules.Slot, ttl time.Duration, now time.Time) *Lease {
	return &Lease{id: id, position: s.Position, fence: s.Fence, ttl: ttl, deadline: now.Add(ttl)}
}

// ID is the lease's UUID. It is a secret: whoever has it can return the lease.
func (l *Lease) ID() uuid.UUID { return l.id }

// Position is the slot, 0 … count−1 of the pool.
func (l *Lease) Position() int { return l.position }

// Fence is the lease's fencing token: higher than that of every earlier lease
// of the pool, the same over all renewals, and below 2^53. A resource that
// remembers the highest fence it has seen, and refuses lower ones, is safe from
// a holder that does not know yet that its lease has ended.
func (l *Lease) Fence() uint64 { return l.fence }

// TTL is how long the lease was promised to last from the moment the call
// returned. It may be less than was asked for: see Config.MaxTTL.
func (l *Lease) TTL() time.Duration { return l.ttl }

// ExpiresAt is when the lease ends unless it is renewed or returned, by this
// machine's clocks. It carries a monotonic reading, so time.Until is safe from
// steps of the wall clock.
func (l *Lease) ExpiresAt() time.Time { return l.deadline }

func leaseHash(id uuid.UUID) entry.Hash { return entry.HashOf("lease", id.String()) }

func poolHash(id uuid.UUID) entry.Hash { return entry.HashOf("library", id.String()) }
