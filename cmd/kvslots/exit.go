package main

import (
	"errors"
	"fmt"
	"net/http"
	"slices"

	"github.com/nats-io/nats.go"

	"github.com/kvslots/kvslots/cmd/kvslots/internal/underlease"
	"github.com/kvslots/kvslots/kvslots"
	"github.com/kvslots/kvslots/kvslots/client"
	"github.com/kvslots/kvslots/kvslots/wire"
)

const (
	exitDone   = 0
	exitFailed = 1
	exitUsage  = 2
	exitNoSlot = 75                  // no slot was free in time; EX_TEMPFAIL of sysexits.h
	exitLost   = underlease.ExitLost // 124: run ended the command because its lease was ending
)

var takers, runners = []string{"borrow", "run", "lock", "sem"}, []string{"run", "lock", "sem"}

// exitStatuses is for the man pages: what an exit code means, and of which commands, or of all.
var exitStatuses = []struct {
	code, text string
	of         []string
}{
	{"0", "Done; run, lock and sem have the command's own exit code, whatever it is.", nil},
	{"1", "Failed.", nil},
	{"2", "Wrong usage.", nil},
	{"65", "The semaphore is in use with another limit.", takers},
	{"69", "No gateway has answered, or one is overloaded or stopping.", takers},
	{"75", "No slot or lock in time; nothing was run.", append(slices.Clone(takers), "acquire")},
	{"77", "The gateway, or NATS, refuses the credentials.", takers},
	{"78", "A file that a setting names cannot be read, or the servers are gateways of two stores; serve ends with 1.", nil},
	{"124", "The command was ended, because the lease was lost or about to end.", runners},
	{"126, 127", "The command cannot be executed, or cannot be found; nothing was taken.", runners},
	{"128 + n", "Signal n killed the command, or ended the wait.", takers},
}

// Exit codes of the commands that take something; of sysexits.h, too.
const (
	exitMismatch  = 65 // the semaphore has another limit
	exitNoGateway = 69 // no gateway has answered, or one is overloaded or stopping
	exitRefused   = 77 // the gateway, or NATS, refuses the credentials
	exitSettings  = 78 // a file that a setting names cannot be read, or the servers are of two stores
)

func codeOf(err error) int {
	refused, _ := errors.AsType[*wire.Refusal](err)
	switch {
	case errors.Is(err, kvslots.ErrNoSlot):
		return exitNoSlot
	case errors.Is(err, kvslots.ErrLimitMismatch):
		return exitMismatch
	case errors.Is(err, nats.ErrAuthorization), refused != nil && slices.Contains([]int{http.StatusUnauthorized, http.StatusForbidden}, refused.Status):
		return exitRefused
	case errors.Is(err, client.ErrTwoStores):
		return exitSettings
	case client.Temporary(err):
		return exitNoGateway
	}
	return exitFailed
}

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
