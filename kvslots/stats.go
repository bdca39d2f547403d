package kvslots

import (
	"cmp"
	"context"
	"encoding/binary"
	"slices"
	"time"

	"github.com/kvslots/kvslots/kvslots/internal/entry"
	"github.com/kvslots/kvslots/kvslots/internal/rules"
)

// idleNames is for how long a name is told of that nobody holds or waits for.
const idleNames = time.Minute

// Stats is what there is, at one instant.
type Stats struct {
	Sessions int         // live ones, over all gateways
	Names    []NameStats // locks and semaphores that are held or waited for, by key
	Idle     []IdleName  // those that were within the last minute, by key
	Pools    []PoolStats // all registered pools, by hash
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

// IdleName is a lock or semaphore that nobody holds or waits for any more.
type IdleName struct {
	Resource
	Owned bool // as in NameStats
	Idle  time.Duration
}

// PoolStats is a registered pool. Its hash is no secret: nobody can borrow with it.
type PoolStats struct {
	Hash string
	State
	OldestWait time.Duration
}

// Stats tells what there is, at an instant between the call and its return.
//
// The errors are ErrUnavailable, ErrClosed and what ctx ends with.
func (s *Store) Stats(ctx context.Context) (Stats, error) {
	var stats Stats
	err := s.bucket.ask(ctx, func() bool { stats = s.bucket.read(); return true })
	slices.SortFunc(stats.Names, func(x, y NameStats) int { return cmp.Compare(x.Key, y.Key) })
	slices.SortFunc(stats.Idle, func(x, y IdleName) int { return cmp.Compare(x.Key, y.Key) })
	slices.SortFunc(stats.Pools, func(x, y PoolStats) int { return cmp.Compare(x.Hash, y.Hash) })
	return stats, err
}

// read takes the stats from the view.
func (b *bucket) read() Stats {
	now := b.now()
	stats := Stats{Sessions: b.world.Clients()}
	b.world.EachPool(func(p *rules.Pool) bool {
		naming := p.Naming()
		since, idle := p.IdleSince()
		switch {
		case naming.Name == "" && p.Registered():
			stats.Pools = append(stats.Pools, PoolStats{Hash: p.ID.String(), State: stateOf(p), OldestWait: oldestWait(p, now)})
		case naming.Name == "":
		case !idle:
			stats.Names = append(stats.Names, nameStats(p, now))
		case now.Sub(since) < idleNames:
			stats.Idle = append(stats.Idle, IdleName{resourceOf(naming), isOwned(p), now.Sub(since)})
		}
		return true
	})
	return stats
}

func oldestWait(p *rules.Pool, now rules.Instant) (oldest time.Duration) {
	p.Tickets(func(t *rules.Ticket) bool {
		if t.Stands() {
			oldest = max(0, now.Sub(t.Seen()))
			return false
		}
		return true
	})
	return oldest
}

func nameStats(p *rules.Pool, now rules.Instant) NameStats {
	stats := NameStats{Resource: resourceOf(p.Naming()), Owned: isOwned(p)}
	p.Slots(func(s *rules.Slot) bool {
		if s.Live() {
			stats.Holders = append(stats.Holders, HolderStats{
				Owner: ownerNumber(holderOf(s, stats.Owned)), Position: s.Position, Fence: s.Fence,
				Age: max(0, now.Sub(s.Granted())), ExpiresIn: max(0, s.EndsAt().Sub(now)),
			})
		}
		return true
	})
	p.Tickets(func(t *rules.Ticket) bool {
		if t.Stands() {
			stats.Waiters = append(stats.Waiters, WaiterStats{Owner: ownerNumber(ownerOf(t)), Waited: max(0, now.Sub(t.Seen()))})
		}
		return true
	})
	return stats
}

// holderOf is the session that a slot belongs to, or the owner of a lock that
// has no session.
func holderOf(s *rules.Slot, owned bool) entry.Hash {
	if owned {
		return ownerHash(s.Value.Label)
	}
	return s.Value.Session
}

// ownerOf is the session that a ticket is for.
func ownerOf(t *rules.Ticket) entry.Hash {
	if !t.Value.Owner.IsZero() {
		return t.Value.Owner
	}
	return t.Value.Session
}

// ownerNumber tells sessions apart. It is no more of a secret than the hash that
// it is taken from.
func ownerNumber(session entry.Hash) uint64 { return binary.BigEndian.Uint64(session[:8]) >> 11 }
