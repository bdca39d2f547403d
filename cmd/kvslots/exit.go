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
	exitNoSlot = 75                  // no slot was free in time; EX_TEMPFAIL of sysexits.h
	exitLost   = underlease.ExitLost // 124: run ended the command because its lease was ending
)

// exitError ends the program with an exit code. The program prints error unless it is
// nil, as it is if the error was logged or the exit code is enough.
type exitError struct {
	code int
	error
}

func (e exitError) Unwrap() error { return e.error }

func (e exitError) Error() string {
	if e.error == nil {
		return fmt.Sprintf("exit code %d", e.code)
	}
	return e.error.Error()
}
