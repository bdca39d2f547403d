package kvslots

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/kvslots/kvslots/kvslots/internal/entry"
	"github.com/kvslots/kvslots/kvslots/internal/rules"
)

const (
	// MaxOwnedName is the longest name of a lock that LockOwned takes, in bytes.
	MaxOwnedName = entry.MaxName

	// MaxOwner is the longest owner of such a lock, in bytes.
	MaxOwner = entry.MaxLabel
)

// OwnedLock is one acquisition of a lock by LockOwned.
type OwnedLock struct {
	Name      string
	Owner     string
	Fence     uint64        // the fencing token: see Lease.Fence
	TTL       time.Duration // how long it was promised to last; see Config.MaxTTL
	ExpiresAt time.Time     // when that is over; carries a monotonic reading

	lease entry.Hash
}

// LockOwned takes the lock of that name for an owner, under a lease of ttl that
// ends by ReleaseOwned, UnlockOwned, ForceRelease or by time alone: no session
// holds it, and it is never renewed. If the lock is held, or others wait already,
// the call stands in line for up to wait. ttl is at least a second, wait at least
// 0; both are clamped to the Config's maxima.
//
// Each call is an acquisition of its own: two calls exclude each other, even if
// they name the same owner. The locks have a namespace of their own beside those
// of Acquire. Name and owner stand in the bucket as they are: neither is a secret.
//
// The errors are ErrNoSlot (not in that time), ErrMaxLocks, ErrMaxWaiters,
// ErrUnavailable, ErrClosed, a *RangeError, and what ctx ends with.
func (s *Store) LockOwned(ctx context.Context, name, owner string, ttl, wait time.Duration) (*OwnedLock, error) {
	switch {
	case ttl < time.Second:
		return nil, &RangeError{"ttl", "at least 1 second"}
	case wait < 0:
		return nil, &RangeError{"wait", "at least 0 seconds"}
	}
	if err := errors.Join(checkOwnedName(name), checkOwner(owner)); err != nil {
		return nil, err
	}
	if err := context.Cause(ctx); err != nil {
		return nil, err
	}
	op := &borrow{
		pool: ownedHash(name), hash: randomHash(), ttl: min(ttl, s.cfg.MaxTTL), wait: min(wait, s.cfg.MaxWait),
		label: owner, owner: ownerHash(owner), naming: Lock(name).naming(entry.Hash{}),
	}
	lease, err := s.bucketOf(op.pool).borrow(ctx, op)
	if err != nil {
		return nil, err
	}
	return &OwnedLock{
		Name: name, Owner: owner, lease: op.hash,
		Fence: lease.Fence(), TTL: lease.TTL(), ExpiresAt: lease.ExpiresAt(),
	}, nil
}

// UnlockOwned ends one acquisition. It returns false when that has ended already:
// its time is over, or it was released. It leaves alone what the same owner has
// acquired since.
//
// The call goes through whatever ctx says, for ReturnTimeout at most. The errors
// are ErrUnavailable and ErrClosed; after one the lock may have been released or
// not, and the call may be repeated.
func (s *Store) UnlockOwned(ctx context.Context, lock *OwnedLock) (bool, error) {
	ctx, cancel := returning(ctx)
	defer cancel()
	pool := ownedHash(lock.Name)
	err := s.bucketOf(pool).endOwned(ctx, pool, ownerHash(lock.Owner), func(slot *rules.Slot) error {
		if slot == nil || slot.Value.Lease != lock.lease {
			return ErrNotHeld
		}
		return nil
	})
	if errors.Is(err, ErrNotHeld) {
		return false, nil
	}
	return err == nil, err
}

// ReleaseOwned releases a lock that the owner holds, from any peer.
//
// The call goes through whatever ctx says, for ReturnTimeout at most. The errors
// are ErrNotHeld (nobody holds the lock), ErrNotOwner, ErrAlreadyReleased,
// ErrUnavailable, ErrClosed and a *RangeError. After ErrUnavailable it may have been
// released or not; the call may be repeated.
func (s *Store) ReleaseOwned(ctx context.Context, name, owner string) error {
	if err := errors.Join(checkOwnedName(name), checkOwner(owner)); err != nil {
		return err
	}
	ctx, cancel := returning(ctx)
	defer cancel()
	pool, by := ownedHash(name), ownerHash(owner)
	b := s.bucketOf(pool)
	return b.endOwned(ctx, pool, by, func(slot *rules.Slot) error {
		switch {
		case slot != nil && slot.Value.Label == owner:
			return nil
		case b.world.ReleasedBy(pool, by, b.now()):
			return ErrAlreadyReleased
		case slot != nil:
			return ErrNotOwner
		}
		return ErrNotHeld
	})
}

// ForceRelease releases a lock whoever holds it.
//
// The call goes through whatever ctx says, for ReturnTimeout at most. The errors
// are ErrNotHeld, ErrUnavailable, ErrClosed and a *RangeError.
func (s *Store) ForceRelease(ctx context.Context, name string) error {
	if err := checkOwnedName(name); err != nil {
		return err
	}
	ctx, cancel := returning(ctx)
	defer cancel()
	pool := ownedHash(name)
	return s.bucketOf(pool).endOwned(ctx, pool, entry.Hash{}, func(slot *rules.Slot) error {
		if slot == nil {
			return ErrNotHeld
		}
		return nil
	})
}

// OwnedStatus is what is known of a lock that LockOwned takes.
type OwnedStatus struct {
	Held       bool // the rest means something only then
	Owner      string
	Fence      uint64
	AcquiredAt time.Time
	ExpiresAt  time.Time
	ExpiresIn  time.Duration // at least 0
}

// OwnedStatus returns the state of a lock, as it was at an instant between the
// call and its return.
//
// The errors are ErrUnavailable, ErrClosed, a *RangeError and what ctx ends with.
func (s *Store) OwnedStatus(ctx context.Context, name string) (status OwnedStatus, err error) {
	if err := checkOwnedName(name); err != nil {
		return OwnedStatus{}, err
	}
	pool := ownedHash(name)
	b := s.bucketOf(pool)
	err = b.ask(ctx, func() bool {
		slot, doubtful := b.ownedSlot(pool)
		if doubtful {
			return false
		}
		if slot != nil {
			status = b.ownedStatus(slot)
		}
		return true
	})
	return status, err
}

func (b *bucket) ownedStatus(slot *rules.Slot) OwnedStatus {
	now := b.now()
	return OwnedStatus{
		Held: true, Owner: slot.Value.Label, Fence: slot.Fence,
		AcquiredAt: b.origin.Add(time.Duration(slot.Granted())),
		ExpiresAt:  b.origin.Add(time.Duration(slot.EndsAt())),
		ExpiresIn:  max(0, slot.EndsAt().Sub(now)),
	}
}

// ownedSlot is the slot of a lock that is held, or nil. It is doubtful while the
// claim in it may yet be withdrawn.
func (b *bucket) ownedSlot(pool entry.Hash) (slot *rules.Slot, doubtful bool) {
	slot = slotOf(b.world.Pool(pool), 0)
	if slot == nil || !slot.Live() {
		return nil, false
	}
	return slot, slot.InDoubt(b.now())
}

// endOwned purges the slot of a lock by compare-and-swap on the revision that
// judge, which is called under the lock, has approved of. A refusal of judge's is
// believed only when the view is as new as the call. by is the owner that is to be
// remembered for the release, if any.
func (b *bucket) endOwned(ctx context.Context, pool, by entry.Hash, judge func(*rules.Slot) error) error {
	ctx, cancel := bounded(ctx)
	defer cancel()
	for {
		h, err := b.findOwned(ctx, pool, judge)
		if err != nil {
			return err
		}
		m := purge(h.key, h.revision, h.value.Ticket)
		if !by.IsZero() {
			m.Header.Set(entry.HeaderOwner, by.String())
		}
		b.mu.Lock()
		b.purging(h.key, h.revision)
		b.mu.Unlock()
		a, err := b.put1(ctx, m)
		if err != nil || a.err != nil {
			b.purged(h.key, h.revision, ack{err: errNotSent})
		}
		switch {
		case err != nil:
			return err
		case a.err == nil:
			// It is released, whether or not the view gets to see that in time.
			_ = b.askAt(ctx, a.revision, func() bool { return true })
			return nil
		}
		if err := b.afterConflict(ctx, pool, a); err != nil {
			return err
		}
	}
}

// findOwned returns the slot of a lock if judge approves of it.
func (b *bucket) findOwned(ctx context.Context, pool entry.Hash, judge func(*rules.Slot) error) (h held, err error) {
	look := func() (doubtful bool) {
		slot, doubtful := b.ownedSlot(pool)
		if err = judge(slot); err == nil {
			h = held{key: slotKey(pool, slot.Position), revision: slot.Revision, value: slot.Value}
		}
		return doubtful
	}
	b.mu.Lock()
	if b.closing {
		b.mu.Unlock()
		return held{}, ErrClosed
	}
	doubtful := look()
	b.mu.Unlock()
	if err == nil && !doubtful {
		return h, nil
	}
	if failed := b.ask(ctx, func() bool { return !look() }); failed != nil {
		return held{}, failed
	}
	return h, err
}

func checkOwnedName(name string) error {
	if len(name) < 1 || len(name) > MaxOwnedName || !utf8.ValidString(name) || strings.ContainsFunc(name, blank) {
		return &RangeError{"key", fmt.Sprintf("1 to %d bytes of UTF-8 without white space", MaxOwnedName)}
	}
	return nil
}

func checkOwner(owner string) error {
	if len(owner) < 1 || len(owner) > MaxOwner || !utf8.ValidString(owner) {
		return &RangeError{"owner", fmt.Sprintf("1 to %d bytes of UTF-8", MaxOwner)}
	}
	return nil
}

// ownedHash is the pool of a lock that LockOwned takes. Its domain keeps it apart
// from the locks of sessions.
func ownedHash(name string) entry.Hash { return entry.HashOf("forrst", name) }

// isOwned reports whether a named pool is such a lock.
func isOwned(p *rules.Pool) bool { return p.ID == ownedHash(p.Naming().Name) }

func ownerHash(owner string) entry.Hash { return entry.HashOf("owner", owner) }
