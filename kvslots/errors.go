package kvslots

import (
	"errors"
	"fmt"
	"syscall"

	"github.com/kvslots/kvslots/kvslots/internal/peer"
)

var (
	// ErrNoPool is returned when no pool is registered under the given id,
	// perhaps because it has been deleted.
	ErrNoPool = peer.ErrNoPool

	// ErrNoSlot is returned by Borrow, Acquire, Wait and LockOwned when the
	// caller's turn did not come within the given wait.
	ErrNoSlot = peer.ErrNoSlot

	// ErrNotHeld is returned by Renew, Release and RenewGrant when the lease is
	// unknown, was returned, or has ended, and by ReleaseOwned and
	// ForceRelease when no owner holds the lock.
	ErrNotHeld = peer.ErrNotHeld

	// ErrExpired and ErrEvicted are returned in place of ErrNotHeld if it is known that the lease was
	// not renewed in time, or was ended by Evict. A Store knows it of the last 4096 such leases that it
	// has seen end. errors.Is also finds ErrNotHeld in them.
	ErrExpired = peer.ErrExpired
	ErrEvicted = peer.ErrEvicted

	// ErrOtherHolder is returned by Evict when the position has another lease by now.
	ErrOtherHolder = peer.ErrOtherHolder

	// ErrNoPosition is returned by TakeOut for a position that the pool does not have.
	ErrNoPosition = peer.ErrNoPosition

	// ErrNotInLine is returned by PlaceOf when no call with the request key waits, and
	// none has a lease.
	ErrNotInLine = peer.ErrNotInLine

	// ErrUnavailable is returned when JetStream did not answer, or reported
	// a failure. The caller holds nothing, or the Store undoes what was
	// written. The call may be repeated.
	ErrUnavailable = peer.ErrUnavailable

	// ErrFull is returned by the methods that add entries while the server has no room
	// for them: see Config.Room. Nothing was written. errors.Is also finds
	// ErrUnavailable in it.
	ErrFull = fmt.Errorf("%w: no room for new entries", ErrUnavailable)

	// ErrNoMajority is returned by all methods while most nodes of the cluster are missing: see
	// Config.Room. Nothing was written. errors.Is also finds ErrUnavailable in it.
	ErrNoMajority = fmt.Errorf("%w: no majority of the nodes", ErrUnavailable)

	// ErrClosed is returned by every method after Close has begun.
	ErrClosed = peer.ErrClosed

	// ErrSessionGone is returned when no session has the given id, perhaps
	// because it was idle for too long, or was ended.
	ErrSessionGone = peer.ErrSessionGone

	// ErrLimitMismatch is returned by Acquire and Enqueue when sessions hold
	// or wait for the key with another limit or of the other Kind.
	ErrLimitMismatch = peer.ErrLimitMismatch

	// ErrAlreadyEnqueued is returned by Enqueue when the session has already
	// enqueued for the key, and has not called Wait since.
	ErrAlreadyEnqueued = peer.ErrAlreadyEnqueued

	// ErrNotEnqueued is returned by Wait when the session has not enqueued for
	// the key, or has left its line.
	ErrNotEnqueued = peer.ErrNotEnqueued

	// ErrLeaseExpired is returned by Wait when the session's turn came before
	// the call, and the lease ended before the call, too.
	ErrLeaseExpired = peer.ErrLeaseExpired

	// ErrPlaceKept, as the cause of a context that ends a Wait, makes the
	// session keep its place in the line, so that it can call Wait at another
	// peer. A gateway that shuts down uses it. A call with a request key keeps
	// its place for Config.ResumeGrace: a gateway uses it when a
	// client has gone that may come back.
	ErrPlaceKept = peer.ErrPlaceKept

	// ErrMaxPools is returned by Register for a new pool when Config.MaxPools
	// pools are registered already.
	ErrMaxPools = peer.ErrMaxPools

	// ErrMaxLocks is returned by Acquire, Enqueue and LockOwned for a new key
	// when Config.MaxLocks keys are held or waited for already.
	ErrMaxLocks = peer.ErrMaxLocks

	// ErrMaxWaiters is returned by Acquire, Enqueue, LockOwned and Borrow when the line has
	// Config.MaxWaiters places already.
	ErrMaxWaiters = peer.ErrMaxWaiters

	// ErrMaxSessions is returned by CreateSession when there are
	// Config.MaxSessions already.
	ErrMaxSessions = peer.ErrMaxSessions

	// ErrMaxSessionsPerOrigin is returned by CreateSession when the origin
	// has Config.MaxSessionsPerOrigin sessions already.
	ErrMaxSessionsPerOrigin = peer.ErrMaxSessionsPerOrigin

	// ErrMaxTombstones is returned by Register for a new pool, by CreateSession, and by
	// Acquire, Enqueue and LockOwned for a new key, when too many pools, keys and sessions
	// of the origin have ended in the last minutes: see Config.MaxTombstones.
	ErrMaxTombstones = peer.ErrMaxTombstones

	// ErrMaxLocksPerSession is returned by Acquire and Enqueue for a further key when
	// the session holds or waits for Config.MaxLocksPerSession keys already.
	ErrMaxLocksPerSession = peer.ErrMaxLocksPerSession

	// ErrMaxLocksPerOrigin is returned by Acquire, Enqueue and LockOwned for a further
	// key when the clients of the origin hold or wait for Config.MaxLocksPerOrigin keys
	// already.
	ErrMaxLocksPerOrigin = peer.ErrMaxLocksPerOrigin

	// ErrKeyReused is returned by the calls with a request key when the key has a
	// lease, a waiting call or a registration with other arguments.
	ErrKeyReused = peer.ErrKeyReused

	// ErrNotOwner is returned by ReleaseOwned when another owner holds the
	// lock.
	ErrNotOwner = peer.ErrNotOwner

	// ErrAlreadyReleased is returned by ReleaseOwned when the owner no longer
	// holds the lock because it released it within the last minute.
	ErrAlreadyReleased = peer.ErrAlreadyReleased
)

// RangeError reports an argument outside its range. Its text names the
// argument and the range, and is fit to be shown to a client.
type RangeError struct {
	Field string // the argument's name, as in requests: "count", "ttl", "wait", …
	Range string // the allowed values, in words: "between 0 and 1000"
}

func (e *RangeError) Error() string { return fmt.Sprintf("%s must be %s", e.Field, e.Range) }

// full returns the error for what Config.Room says.
func full(why error) error {
	if errors.Is(why, ErrNoMajority) {
		return why
	}
	if errno, ok := errors.AsType[syscall.Errno](why); ok && errno != syscall.ENOSPC && errno != syscall.EDQUOT {
		return unavailable(why)
	}
	return fmt.Errorf("%w: %w", ErrFull, why)
}

func unavailable(why error) error { return fmt.Errorf("%w: %w", ErrUnavailable, why) }
