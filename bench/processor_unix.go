//go:build unix

package bench

import (
	"syscall"
	"time"
)

// processorTime returns the processor time that this process has used, or 0 if it is
// not known.
func processorTime() time.Duration {
	var r syscall.Rusage
	if syscall.Getrusage(syscall.RUSAGE_SELF, &r) != nil {
		return 0
	}
	return time.Duration(r.Utime.Nano() + r.Stime.Nano())
}
