package peer

import (
	"errors"
	"fmt"
)

// The errors of answers. Package kvslots documents them.
var (
	ErrNoPool               = errors.New("no such pool")
	ErrNoSlot               = errors.New("no resource available")
	ErrNotHeld              = errors.New("lease not held")
	ErrOtherHolder          = errors.New("the position has another lease")
	ErrNoPosition           = errors.New("no such position")
	ErrMaxOut               = errors.New("too much is out of service")
	ErrNotInLine            = errors.New("no borrow with this request key waits or holds a slot")
	ErrNotOwner             = errors.New("lock is owned by another")
	ErrAlreadyReleased      = errors.New("lock was already released by this owner")
	ErrUnavailable          = errors.New("store unavailable")
	ErrClosed               = errors.New("store closed")
	ErrSessionGone          = errors.New("session gone")
	ErrLimitMismatch        = errors.New("limit mismatch")
	ErrAlreadyEnqueued      = errors.New("already enqueued")
	ErrNotEnqueued          = errors.New("not enqueued")
	ErrLeaseExpired         = errors.New("lease expired before it was seen")
	ErrPlaceKept            = errors.New("place in line kept")
	ErrMaxPools             = errors.New("too many pools")
	ErrMaxLocks             = errors.New("too many locks and semaphores")
	ErrMaxWaiters           = errors.New("too many waiters")
	ErrMaxSessions          = errors.New("too many sessions")
	ErrMaxSessionsPerOrigin = errors.New("too many sessions of one origin")
	ErrMaxTombstones        = errors.New("too many pools, names and sessions of one origin have ended in the last minutes")
	ErrMaxLocksPerSession   = errors.New("too many locks and semaphores of one session")
	ErrKeyReused            = errors.New("request key used with other arguments")
	ErrMaxLocksPerOrigin    = errors.New("too many locks and semaphores of one origin")
)

// More about ErrNotHeld, if it is known: see endings.
var (
	ErrExpired = fmt.Errorf("%w: its time is over", ErrNotHeld)
	ErrEvicted = fmt.Errorf("%w: an operator has ended it", ErrNotHeld)
)
