package ops

import (
	"context"
	"fmt"
	"log/slog"
	"runtime"
	"strings"
)

// Panicked is the message about a panic in the handler of a request.
const Panicked = "handler panicked"

// maxFrames is how many frames stackLines returns at most.
const maxFrames = 64

// PanicAttrs returns a recovered panic and the stack for a log line. It returns no text of a panic
// that may contain parts of a request.
func PanicAttrs(reason any) []slog.Attr {
	text := fmt.Sprintf("%T", reason)
	if err, ok := reason.(runtime.Error); ok {
		text = err.Error()
	}
	return []slog.Attr{slog.String("panic", text), slog.String("stack", stackLines())}
}

// Recover logs a panic of a task that no client waits for, which would otherwise end the
// process. It must be called by defer.
func Recover(log *slog.Logger) {
	if reason := recover(); reason != nil {
		log.LogAttrs(context.Background(), slog.LevelError, "task panicked", PanicAttrs(reason)...)
	}
}

// stackLines returns the functions on the stack of the caller, the innermost first, one on
// each line, with file and line. Unlike debug.Stack it contains no arguments: those of
// some functions are bytes of the ids of pools and leases, which are secrets.
func stackLines() string {
	pcs := make([]uintptr, maxFrames)
	const skipped = 2 // runtime.Callers and stackLines
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
