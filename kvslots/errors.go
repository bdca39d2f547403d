package kvslots

import (
	"fmt"

	"github.com/kvslots/kvslots/kvslots/internal/backup"
	"github.com/kvslots/kvslots/kvslots/internal/bucket"
	"github.com/kvslots/kvslots/kvslots/internal/peer"
)

var (
	// ErrNoPool is returned when no pool is registered under the given id:
	// it never was, or it has been deleted.
	ErrNoPool = peer.ErrNoPool

	// ErrNoSlot is returned by Borrow when no slot could be had within the
	// wait that was asked for.
	ErrNoSlot = peer.ErrNoSlot

	// ErrNotHeld is returned by Renew when the lease is unknown, was
	// returned, or has ended.
	ErrNotHeld = peer.ErrNotHeld

	// ErrUnavailable is returned when JetStream did not answer, or answered
	// with a failure. Nothing is held on the caller's behalf, or it will be
	// undone; the call may be repeated.
	ErrUnavailable = peer.ErrUnavailable

	// ErrClosed is returned by every method after Close has begun.
	ErrClosed = peer.ErrClosed

	// ErrSessionGone is returned when no session has that id: it never was,
	// it was idle for too long, or it was ended.
	ErrSessionGone = peer.ErrSessionGone

	// ErrLimitMismatch is returned by Acquire and Enqueue when the key is held
	// or waited for with another limit, or as a lock where a semaphore was
	// asked for, or the other way round.
	ErrLimitMismatch = peer.ErrLimitMismatch

	// ErrAlreadyEnqueued is returned by Enqueue when the session has enqueued
	// for the key before, and has not waited yet.
	ErrAlreadyEnqueued = peer.ErrAlreadyEnqueued

	// ErrNotEnqueued is returned by Wait when the session has not enqueued for
	// the key, or has left its line.
	ErrNotEnqueued = peer.ErrNotEnqueued

	// ErrLeaseExpired is returned by Wait when the session got its turn while
	// it was not waiting, and the lease ended before it came to wait.
	ErrLeaseExpired = peer.ErrLeaseExpired

	// ErrPlaceKept is for the cause of a context that ends a Wait: the session
	// then keeps its place in the line, to wait somewhere else. It is what a
	// gateway that closes down wants.
	ErrPlaceKept = peer.ErrPlaceKept

	// ErrMaxPools is returned by Register for a new pool when Config.MaxPools are
	// registered already.
	ErrMaxPools = peer.ErrMaxPools

	// ErrMaxLocks is returned by Acquire and Enqueue for a new key when
	// Config.MaxLocks are held or waited for already.
	ErrMaxLocks = peer.ErrMaxLocks

	// ErrMaxWaiters is returned by Acquire and Enqueue when Config.MaxWaiters
	// stand in the key's line already, and by Borrow when Config.MaxPoolWaiters
	// stand in the pool's line.
	ErrMaxWaiters = peer.ErrMaxWaiters

	// ErrMaxSessions is returned by CreateSession when there are
	// Config.MaxSessions already.
	ErrMaxSessions = peer.ErrMaxSessions

	// ErrMaxSessionsPerOrigin is returned by CreateSession when the same
	// origin has Config.MaxSessionsPerOrigin already.
	ErrMaxSessionsPerOrigin = peer.ErrMaxSessionsPerOrigin

	// ErrNotOwner is returned by ReleaseOwned when another owner holds the
	// lock.
	ErrNotOwner = peer.ErrNotOwner

	// ErrAlreadyReleased is returned by ReleaseOwned when the owner does not
	// hold the lock, and released it within the last minute.
	ErrAlreadyReleased = peer.ErrAlreadyReleased

	// ErrServerTooOld is returned by Open when the NATS server has no
	// per-message TTLs or limit markers; the error's text names the server
	// and its version.
	ErrServerTooOld = bucket.ErrServerTooOld

	// ErrWrongBucket is returned by Open when the bucket exists with a
	// configuration that kvslots cannot work with; the error's text names
	// each setting that is wrong.
	ErrWrongBucket = bucket.ErrWrongBucket

	// ErrNoBucket is returned by Backup when there is no bucket.
	ErrNoBucket = backup.ErrNoBucket

	// ErrCorruptBackup is returned by Restore for a file that is not a backup, or
	// that was cut off or changed.
	ErrCorruptBackup = backup.ErrCorruptBackup

	// ErrNotEmpty is returned by Restore when the bucket has pools, leases or
	// sessions, and RestoreOptions.Replace is false.
	ErrNotEmpty = backup.ErrNotEmpty

	// ErrClock is returned by Restore when this machine's clock or the server's is
	// behind the time of the backup: fences and the ends of leases could go wrong.
	ErrClock = backup.ErrClock
)

// RangeError reports an argument outside its range. Its text names the
// argument and the range, and is fit to be shown to a client.
type RangeError struct {
	Field string // the argument's name, as in the documents: "count", "ttl", "wait", …
	Range string // what is allowed, in words: "between 0 and 1000"
}

func (e *RangeError) Error() string { return fmt.Sprintf("%s must be %s", e.Field, e.Range) }

func unavailable(why error) error { return fmt.Errorf("%w: %w", ErrUnavailable, why) }
