package underlease

import (
	"context"
	"errors"
	"time"
)

// Slot is what a lease is for. Run never calls two methods at the same time.
type Slot interface {
	// Borrow blocks until a lease is granted, or ctx ends. Run calls it again
	// when it has returned a lease of which too little was left.
	Borrow(ctx context.Context) (Lease, error)

	// Renew extends the lease that Borrow returned last. It returns ErrLost when
	// that lease has ended, and errors.ErrUnsupported when the server cannot
	// renew leases. After these and other errors Run tries again while there is
	// time, except after ErrLost.
	Renew(ctx context.Context) (Lease, error)

	// RetryAfter is how long to wait after an error of Renew, if the server has
	// asked for that; otherwise 0.
	RetryAfter(err error) time.Duration

	// Return returns the lease, with as many tries as that takes until ctx ends
	// or the lease does.
	Return(ctx context.Context) error
}

// ErrLost is returned by Slot.Renew when the lease has ended.
var ErrLost = errors.New("the lease has ended")

// Lease is a lease as it was granted or renewed.
type Lease struct {
	Began time.Duration // when it began, or earlier, as boottime.Now has it
	TTL   time.Duration
}

// Margin is how long before the end of a lease nothing may run under it any more.
// It makes up for signals that are delivered late, and for clocks that differ.
func Margin(ttl time.Duration) time.Duration {
	return min(max(ttl/10, 250*time.Millisecond), 2*time.Second)
}

// DefaultKillAfter is a Config.KillAfter that leaves most of a lease to the command.
func DefaultKillAfter(ttl time.Duration) time.Duration {
	return min(ttl/3, 10*time.Second)
}

// killAt is when the command must be killed.
func (l Lease) killAt() time.Duration { return l.Began + l.TTL - Margin(l.TTL) }

// termAt is when the command must be sent SIGTERM, if it may take killAfter to end.
func (l Lease) termAt(killAfter time.Duration) time.Duration { return l.killAt() - killAfter }

// renewAt is when to renew the lease.
func (l Lease) renewAt() time.Duration { return l.Began + l.TTL/3 }

// fresh reports whether the command has half of its time left, or more.
func (l Lease) fresh(now, killAfter time.Duration) bool {
	whole := l.TTL - Margin(l.TTL) - killAfter
	return whole > 0 && l.termAt(killAfter)-now >= whole/2
}
