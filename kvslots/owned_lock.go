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
	// MaxOwnedName is the longest name of an owned lock, in bytes.
	MaxOwnedName = entry.MaxName

	// MaxOwner is the longest owner of an owned lock, in bytes.
	MaxOwner = entry.MaxLabel // bytes

	// ownedDialect is the namespace of owned locks, which separates them from the
	// locks of sessions.
	ownedDialect = entry.OfOwned
)

// OwnedLock is one acquisition of a lock by LockOwned.
type OwnedLock struct {
	Name      string
	Owner     string
	Fence     uint64        // the fencing token: see Lease.Fence
	TTL       time.Duration // the time for which it was granted: see Lease.TTL
	ExpiresAt time.Time     // see Lease.ExpiresAt

	lease   entry.Hash
	resumed bool
}

// LockOwned takes a lock for an owner, without a session, under a lease that
// cannot be renewed: see WithTTL. The lease ends by UnlockOwned, ReleaseOwned or ForceRelease, or
// when its time is over. If the lock is held, or other callers wait already, LockOwned
// waits in line until ctx ends, or for WithWait. A longer ttl is clamped to Config.MaxTTL.
//
// Two calls exclude each other even if they name the same owner. Owned locks and the
// locks of Acquire have separate namespaces. Name and owner are not secret: the bucket
// stores them as they are.
//
// The errors are ErrNoSlot, ErrMaxLocks, ErrMaxLocksPerOrigin, ErrMaxWaiters, ErrMaxTombstones,
// ErrKeyReused, ErrUnavailable, ErrClosed, a *RangeError, and context.Cause(ctx).
func (s *Store) LockOwned(ctx context.Context, name, owner string, opts ...Option) (*OwnedLock, error) {
	o, err := newOptions(opts)
	if err != nil {
		return nil, err
	}
	if err := errors.Join(checkOwnedName(name), checkOwner(owner)); err != nil {
		return nil, err
	}
	if err := s.checkRoom(ctx); err != nil {
		return nil, err
	}
	ttl, wait := o.Times()
	a, err := s.bucket.Do(ctx, peer.Acquire{
		Resource: peer.Resource{Pool: ownedHash(name), Dialect: ownedDialect, Name: name, Lock: true, Limit: 1},
		Lease:    randomHash(), Owner: owner, Origin: s.originHash(o.Origin), TTL: min(ttl, s.cfg.MaxTTL), Wait: wait,
		Request: requestHash(owner, o.RequestKey), Label: o.Label,
	})
	if err != nil {
		return nil, TakenName(refused(err, a.Refusal), name)
	}
	return &OwnedLock{
		Name: name, Owner: owner, Fence: a.Grant.Fence, TTL: a.Grant.TTL,
		ExpiresAt: s.bucket.Time(a.Grant.At).Add(a.Grant.TTL), lease: a.Grant.Lease, resumed: a.Grant.Resumed,
	}, nil
}

// UnlockOwned ends one acquisition. It returns false when that acquisition has ended
// already. It does not affect a later acquisition by the same owner.
//
// UnlockOwned ignores the end of ctx: see ReturnTimeout. The errors are ErrUnavailable
// and ErrClosed; after an error the lock may or may not have been released, and the
// call may be repeated.
func (s *Store) UnlockOwned(ctx context.Context, lock *OwnedLock) (bool, error) {
	ctx, cancel := Returning(ctx)
	defer cancel()
	_, err := s.bucket.Do(ctx, peer.Return{Held: peer.Held{
		Pool: ownedHash(lock.Name), Lease: lock.lease, Named: true, Lock: true, Fence: lock.Fence,
	}})
	return ended(err)
}

// ReleaseOwned releases a lock that the owner holds, whichever peer granted it.
//
// ReleaseOwned ignores the end of ctx: see ReturnTimeout. The errors are ErrNotHeld (no
// owner holds the lock), ErrNotOwner, ErrAlreadyReleased, ErrUnavailable, ErrClosed and
// a *RangeError. After ErrUnavailable the lock may or may not have been released; the
// call may be repeated.
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
// ForceRelease ignores the end of ctx: see ReturnTimeout. The errors are ErrNotHeld,
// ErrUnavailable, ErrClosed and a *RangeError.
func (s *Store) ForceRelease(ctx context.Context, name string) error {
	if err := checkOwnedName(name); err != nil {
		return err
	}
	ctx, cancel := Returning(ctx)
	defer cancel()
	_, err := s.bucket.Do(ctx, peer.ReleaseOwned{Pool: ownedHash(name), Force: true})
	return err
}

// OwnedStatus is the state of an owned lock.
type OwnedStatus struct {
	Held       bool // if false, the other fields are zero
	Owner      string
	Fence      uint64
	AcquiredAt time.Time
	ExpiresAt  time.Time
	ExpiresIn  time.Duration // until ExpiresAt, at least 0
}

// OwnedStatus returns the state of an owned lock at an instant between the call and
// its return.
//
// The errors are ErrUnavailable, ErrClosed, a *RangeError and context.Cause(ctx).
func (s *Store) OwnedStatus(ctx context.Context, name string) (OwnedStatus, error) {
	if err := checkOwnedName(name); err != nil {
		return OwnedStatus{}, err
	}
	a, err := s.bucket.Do(ctx, peer.ReadPool{Pool: ownedHash(name), MaxHolders: 1})
	switch {
	case errors.Is(err, ErrNoPool) || err == nil && len(a.Detail.Holders) == 0:
		return OwnedStatus{}, nil
	case err != nil:
		return OwnedStatus{}, err
	}
	now, h := time.Now(), a.Detail.Holders[0]
	left := time.Duration(h.ExpiresIn)
	return OwnedStatus{
		Held: true, Owner: h.OwnerName, Fence: h.Fence, AcquiredAt: now.Add(-time.Duration(h.Age)), ExpiresAt: now.Add(left), ExpiresIn: left,
	}, nil
}

func checkOwnedName(name string) error {
	if len(name) < 1 || len(name) > MaxOwnedName || !utf8.ValidString(name) || strings.ContainsFunc(name, isBlank) {
		return &RangeError{"key", fmt.Sprintf("1 to %d bytes of UTF-8 without white space or control characters", MaxOwnedName)}
	}
	return nil
}

func checkOwner(owner string) error {
	if len(owner) < 1 || len(owner) > MaxOwner || !utf8.ValidString(owner) {
		return &RangeError{"owner", fmt.Sprintf("1 to %d bytes of UTF-8", MaxOwner)}
	}
	return nil
}
