// Package hidden keeps ids out of stack dumps. The ids of pools and leases are secrets,
// and a dump prints the arguments of each function on a stack, arrays by value. A
// function that blocks first moves ids out of its arguments. The program keeps
// them out of its own dumps; this is for programs that embed a Store (TestDumpOfStore).
package hidden

import "github.com/google/uuid"

// Move returns a copy of an argument, and clears the argument.
//
//go:noinline
func Move(id *uuid.UUID) *uuid.UUID {
	moved := *id
	*id = uuid.UUID{}
	return &moved
}

// Clear clears arguments that are not needed any more.
//
//go:noinline
func Clear(ids ...*uuid.UUID) {
	for _, id := range ids {
		*id = uuid.UUID{}
	}
}
