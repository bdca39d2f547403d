// Package hidden keeps ids out of stack dumps. The ids of pools and leases are secrets,
// and a dump prints the arguments of each function on a stack, arrays by value. A
// function that blocks moves the ids among its arguments elsewhere first.
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

// Scrub clears the part of the stack that the caller's next calls will use. Earlier calls
// left ids there, which a dump would print as unused arguments of the later calls.
//
//go:noinline
func Scrub() {
	var area [1024]byte
	touch(&area)
}

//go:noinline
func touch(area *[1024]byte) { clear(area[:]) }
