package kvslots

import "github.com/google/uuid"

// The ids of pools and leases are secrets, and a dump prints the arguments of each function on
// a stack, arrays by value. A function that blocks first moves ids out of its arguments. The
// program keeps them out of its own dumps; this is for programs that embed a Store
// (TestDumpOfStore).

// hide returns a copy of an argument, and clears the argument.
//
//go:noinline
func hide(id *uuid.UUID) *uuid.UUID {
	moved := *id
	*id = uuid.UUID{}
	return &moved
}

// clearIDs clears arguments that are not needed any more.
//
//go:noinline
func clearIDs(ids ...*uuid.UUID) {
	for _, id := range ids {
		*id = uuid.UUID{}
	}
}
