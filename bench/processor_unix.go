//go:build unix

package bench

import (
	"syscall"
	"time"
)

// processorTime is what this process has used of the processor, or 0 if that is
// not known.
func processorTime() time.Duration {
	var r syscall.Rusage
	if syscall.Getrusage(syscall.RUSAGE_SELF, &r) != nil {
		return 0
	}
	return time.Duration(r.Utime.Nano() + r.Stime.Nano())
}
