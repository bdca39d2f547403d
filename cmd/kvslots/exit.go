package main

import (
	"fmt"

	"github.com/kvslots/kvslots/cmd/kvslots/internal/underlease"
)

// Exit codes; scripts depend on them.
const (
	exitDone   = 0
	exitFailed = 1
	exitUsage  = 2
	exitNoSlot = 75                  // no slot in time; EX_TEMPFAIL of sysexits.h: try again later
	exitLost   = underlease.ExitLost // 124: run ended the command because its lease was ending
)

// usageError is a mistake in how the program was called: exit code 2.
type usageError struct{ error }

func (e usageError) Unwrap() error { return e.error }

// usagef makes a usageError.
func usagef(format string, v ...any) error { return usageError{fmt.Errorf(format, v...)} }

// exitError ends the program with a code of its own. Nothing is printed if there is
// no error inside: it was logged, or the exit code says it all.
type exitError struct {
	code int
	error
}

func (e exitError) Unwrap() error { return e.error }

// Error is also safe to call without an error inside.
func (e exitError) Error() string {
	if e.error == nil {
		return fmt.Sprintf("exit code %d", e.code)
	}
	return e.error.Error()
}
