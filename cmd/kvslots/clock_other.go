//go:build !linux

package main

import "time"

var started = time.Now()

// bootTime reads a clock that never steps. On some systems it stands still
// while the machine is suspended.
func bootTime() time.Duration { return time.Since(started) }
