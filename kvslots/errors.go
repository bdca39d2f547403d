package kvslots

import (
	"errors"
	"fmt"
)

var (
	// ErrNoPool is returned when no pool is registered under the given id:
	// it never was, or it has been deleted.
	ErrNoPool = errors.New("no such pool")

	// ErrNoSlot is returned by Borrow when no slot could be had within the
	// wait that was asked for.
	ErrNoSlot = errors.New("no resource available")

	// ErrNotHeld is returned by Renew when the lease is unknown, was
	// returned, or has ended.
	ErrNotHeld = errors.New("lease not held")

	// ErrUnavailable is returned when JetStream did not answer, or answered
	// with a failure. Nothing is held on the caller's behalf, or it will be
	// undone; the call may be repeated.
	ErrUnavailable = errors.New("store unavailable")

	// ErrClosed is returned by every method after Close has begun.
	ErrClosed = errors.New("store closed")

	// ErrWrongBucket is returned by Open when the bucket exists with a
	// configuration that kvslots cannot work with; the error's text names
	// each setting that is wrong.
	ErrWrongBucket = errors.New("bucket has a wrong configuration")
)

// RangeError reports an argument outside its range. Its text names the
// argument and the range, and is fit to be shown to a client.
type RangeError struct {
	Field string // the argument's name, as in the documents: "count", "ttl", "wait", …
	Range string // what is allowed, in words: "between 0 and 1000"
}

func (e *RangeError) Error() string { return fmt.Sprintf("%s must be %s", e.Field, e.Range) }
