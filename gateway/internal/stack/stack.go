// Package stack describes the stack of a goroutine that has panicked, for the log.
package stack

import (
	"fmt"
	"runtime"
	"strings"
)

// maxFrames is how many frames Lines returns at most.
const maxFrames = 64

// Lines returns the functions on the stack of the caller, the innermost first, one on
// each line, with file and line. Unlike debug.Stack it contains no arguments: those of
// some functions are bytes of the ids of pools and leases, which are secrets.
func Lines() string {
	pcs := make([]uintptr, maxFrames)
	const skipped = 2 // runtime.Callers and Lines
	frames := runtime.CallersFrames(pcs[:runtime.Callers(skipped, pcs)])
	var lines strings.Builder
	for {
		frame, more := frames.Next()
		fmt.Fprintf(&lines, "%s %s:%d\n", frame.Function, frame.File, frame.Line)
		if !more {
			return lines.String()
		}
	}
}
