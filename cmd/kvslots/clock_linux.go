package main

import (
	"time"

	"golang.org/x/sys/unix"
)

// bootTime reads a clock that never steps and goes on while the machine is
// suspended, unlike that of package time: leases go on, too.
func bootTime() time.Duration {
	var now unix.Timespec
	if err := unix.ClockGettime(unix.CLOCK_BOOTTIME, &now); err != nil {
		panic(err) // there since Linux 2.6.39: cannot happen
	}
	return time.Duration(now.Nano())
}
