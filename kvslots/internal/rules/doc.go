// Package rules decides which slot is lent, which ticket is next in the line,
// whether a claim is good, and which keys have to be purged. It is a state machine
// whose input is the entries of the bucket's stream, in order. It does no I/O,
// starts no goroutine and reads no clock: the time is an argument, effects are
// returned values.
//
// Begin with view.go and apply.go: what an entry changes. Then slot.go, line.go and session.go.
package rules
