package kvslots

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/kvslots/kvslots/kvslots/internal/entry"
	"github.com/kvslots/kvslots/kvslots/internal/peer"
)

const (
	// MaxOwnedName is the longest name of a lock that LockOwned takes, in bytes.
	MaxOwnedName = entry.MaxName

	// MaxOwner is the longest owner of such a lock, in bytes.
	MaxOwner = entry.MaxLabel

	// ownedDialect is the namespace of these locks. It keeps them apart from the
	// locks of sessions.
	ownedDialect = "forrst"
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
	if err := CheckTimes(ttl, wait); err != nil {
		return nil, err
	}
	if err := errors.Join(checkOwnedName(name), checkOwner(owner)); err != nil {
		return nil, err
	}
	if err := s.mayAdd(ctx); err != nil {
		return nil, err
	}
	lease := randomHash()
	a, err := s.bucket.Do(ctx, peer.Acquire{
		Resource: peer.Resource{Pool: ownedHash(name), Dialect: ownedDialect, Name: name, Lock: true, Limit: 1},
		Lease:    lease, Owner: owner, TTL: min(ttl, s.cfg.MaxTTL), Wait: min(wait, s.cfg.MaxWait),
	})
	if err != nil {
		return nil, err
	}
	return &OwnedLock{
		Name: name, Owner: owner, Fence: a.Grant.Fence, TTL: a.Grant.TTL,
		ExpiresAt: s.bucket.Time(a.Grant.At).Add(a.Grant.TTL), lease: lease,
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
	ctx, cancel := Returning(ctx)
	defer cancel()
	a, err := s.bucket.Do(ctx, peer.Return{Held: peer.Held{
		Pool: ownedHash(lock.Name), Lease: lock.lease, Named: true, Lock: true, Fence: lock.Fence,
	}})
	if errors.Is(err, ErrNoPool) {
		return false, nil
	}
	return a.Returned, err
}

// ReleaseOwned releases a lock that the owner holds, from any peer.
//
// The call goes through whatever ctx says, for ReturnTimeout at most. The errors
// are ErrNotHeld (no owner holds the lock), ErrNotOwner, ErrAlreadyReleased,
// ErrUnavailable, ErrClosed and a *RangeError. After ErrUnavailable it may have been
// released or not; the call may be repeated.
func (s *Store) ReleaseOwned(ctx context.Context, name, owner string) error {
	if err := errors.Join(checkOwnedName(name), checkOwner(owner)); err != nil {
		return err
	}
	ctx, cancel := Returning(ctx)
	defer cancel()
	_, err := s.bucket.Do(ctx, peer.ReleaseOwned{Pool: ownedHash(name), Owner: owner})
	return err
}

// ForceRelease releases a lock, whichever owner holds it.
//
// The call goes through whatever ctx says, for ReturnTimeout at most. The errors
// are ErrNotHeld, ErrUnavailable, ErrClosed and a *RangeError.
func (s *Store) ForceRelease(ctx context.Context, name string) error {
	if err := checkOwnedName(name); err != nil {
		return err
	}
	ctx, cancel := Returning(ctx)
	defer cancel()
	_, err := s.bucket.Do(ctx, peer.ReleaseOwned{Pool: ownedHash(name), Force: true})
	return err
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
func (s *Store) OwnedStatus(ctx context.Context, name string) (OwnedStatus, error) {
	if err := checkOwnedName(name); err != nil {
		return OwnedStatus{}, err
	}
	a, err := s.bucket.Do(ctx, peer.InspectOwned{Pool: ownedHash(name)})
	if errors.Is(err, ErrNotHeld) {
		return OwnedStatus{}, nil
	}
	if err != nil {
		return OwnedStatus{}, err
	}
	now := time.Now()
	return OwnedStatus{
		Held: true, Owner: a.Owned.Owner, Fence: a.Owned.Fence,
		AcquiredAt: now.Add(-a.Owned.Age), ExpiresAt: now.Add(a.Owned.EndsIn), ExpiresIn: a.Owned.EndsIn,
	}, nil
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

// ownedHash is the pool of a lock that LockOwned takes.
func ownedHash(name string) entry.Hash { return entry.HashOf(ownedDialect, name) }

func ownerHash(owner string) entry.Hash { return entry.HashOf("owner", owner) }
