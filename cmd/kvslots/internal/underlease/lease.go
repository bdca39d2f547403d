package underlease

import (
	"context"
	"time"
)

// Slot borrows leases of a slot, and returns them.
type Slot interface {
	// Borrow blocks until a lease is granted or ctx ends. Run calls it again if the
	// lease had too little time left.
	Borrow(ctx context.Context) (Lease, error)

	// Return returns the lease that Borrow returned last. It tries until it succeeds, ctx ends,
	// or the lease ends.
	Return(ctx context.Context) error
}

// Lease is a lease that renews itself, or one that ends after its TTL. A *kvslots.Lease that is kept alive is
// one, and a *kvslots.Mutex that is locked.
type Lease interface {
	TTL() time.Duration    // of the grant, or of the last renewal
	Left() time.Duration   // until its end, at least, by package clock
	Done() <-chan struct{} // closed when it has ended, as far as is known; nil if that is not known
	Err() error            // why it has ended, as far as is known
	Trouble() error        // of the last renewal; errors.ErrUnsupported if the server cannot renew leases
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

// left returns the time after which the command must be killed.
func left(l Lease) time.Duration { return l.Left() - Margin(l.TTL()) }

// fresh reports whether at least half of the command's time under the lease is left.
func fresh(l Lease, killAfter time.Duration) bool {
	whole := l.TTL() - Margin(l.TTL()) - killAfter
	return whole > 0 && left(l)-killAfter >= whole/2
}
