//go:build !linux

package clock

import "time"

var started = time.Now()

// Now returns the time since the process was started. On some systems this clock does not
// count the time while the machine is suspended.
func Now() time.Duration { return time.Since(started) }
