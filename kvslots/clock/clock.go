// Package clock reads a monotonic clock that includes the time while the machine is
// suspended, as leases do, and sleeps. The monotonic clock of package time excludes that time.
package clock

import (
	"context"
	"time"
)

// Sleep blocks for d and returns true, or returns false as soon as ctx ends.
func Sleep(ctx context.Context, d time.Duration) bool {
	select {
	case <-ctx.Done():
		return false
	case <-time.After(d):
		return true
	}
}
