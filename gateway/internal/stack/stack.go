// Package stack describes the stack of a goroutine that has panicked, for the log.
package stack

import (
	"fmt"
	"runtime"
	"strings"

	"github.com/rs/zerolog"
)

// Panicked is the message about a panic in the handler of a request.
const Panicked = "handler panicked"

// maxFrames is how many frames Lines returns at most.
const maxFrames = 64

// Log adds a recovered panic and the stack to a log line. It adds no text of a panic that
// may contain parts of a request.
func Log(event *zerolog.Event, reason any) *zerolog.Event {
	text := fmt.Sprintf("%T", reason)
	if err, ok := reason.(runtime.Error); ok {
		text = err.Error()
	}
	return event.Str("panic", text).Str("stack", Lines())
}

// Recover logs a panic of a task that no client waits for, which would otherwise end the
// process. It must be called by defer.
func Recover(log zerolog.Logger) {
	if reason := recover(); reason != nil {
		Log(log.Error(), reason).Msg("task panicked")
	}
}

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
