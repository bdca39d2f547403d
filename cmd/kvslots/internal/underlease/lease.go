package underlease

import (
	"context"
	"errors"
	"time"
)

// Slot borrows, renews and returns leases of a slot. Run never calls its methods
// concurrently, but what Follow has begun goes on beside them.
type Slot interface {
	// Borrow blocks until a lease is granted or ctx ends. Run calls it again if the
	// lease had too little time left.
	Borrow(ctx context.Context) (Lease, error)

	// Renew extends the lease that Borrow returned last. It returns ErrLost if that
	// lease has ended, and errors.ErrUnsupported if the server cannot renew leases.
	// After any error but ErrLost, Run tries again while there is time.
	Renew(ctx context.Context) (Lease, error)

	// Follow calls lost once, perhaps from another goroutine, when it notices that the lease that Borrow
	// returned last has ended, perhaps before a renewal returns ErrLost. stop ends that, and
	// waits until lost is not called any more.
	Follow(lost func()) (stop func())

	// RetryAfter returns the pause that the server has asked for in an error of
	// Renew, or 0.
	RetryAfter(err error) time.Duration

	// Return returns the lease. It tries until it succeeds, ctx ends, or the lease
	// ends.
	Return(ctx context.Context) error
}

// ErrLost is returned by Slot.Renew when the lease has ended.
var ErrLost = errors.New("the lease has ended")

// Lease is a granted or renewed lease.
type Lease struct {
	Began time.Duration // its beginning or earlier, on the clock of clock.Now
	TTL   time.Duration
}

// Margin returns the time between the latest end of the command and the end of a lease.
// It allows for late delivery of signals, and for clocks of different speed.
func Margin(ttl time.Duration) time.Duration {
	return min(max(ttl/40, 250*time.Millisecond), 2*time.Second)
}

// DefaultKillAfter returns a Config.KillAfter that leaves most of a lease to the command.
func DefaultKillAfter(ttl time.Duration) time.Duration {
	return min(max(ttl/15, min(ttl/3, time.Second)), 10*time.Second)
}

// Survives returns for how long no server has to answer renewals, at least, before the command
// is ended.
func Survives(ttl, killAfter time.Duration) time.Duration {
	return ttl - Margin(ttl) - killAfter - renewAfter(ttl)
}

// renewAfter returns the age at which a lease is renewed: so early that the command survives
// most of the ttl without a server.
func renewAfter(ttl time.Duration) time.Duration { return max(ttl/20, min(ttl/3, time.Second)) }

// retryAfter returns the pause after a renewal that failed.
func retryAfter(ttl time.Duration) time.Duration {
	return min(max(ttl/60, 100*time.Millisecond), 500*time.Millisecond)
}

// killAt returns the time at which the command must be killed.
func (l Lease) killAt() time.Duration { return l.Began + l.TTL - Margin(l.TTL) }

// termAt returns the time for SIGTERM, if the command may take killAfter to end.
func (l Lease) termAt(killAfter time.Duration) time.Duration { return l.killAt() - killAfter }

func (l Lease) renewAt() time.Duration { return l.Began + renewAfter(l.TTL) }

// fresh reports whether at least half of the command's time under the lease is left.
func (l Lease) fresh(now, killAfter time.Duration) bool {
	whole := l.TTL - Margin(l.TTL) - killAfter
	return whole > 0 && l.termAt(killAfter)-now >= whole/2
}
