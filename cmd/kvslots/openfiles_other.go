//go:build !unix

package main

// openFilesLimit returns a guess: not every system can report its limit.
func openFilesLimit() uint64 { return unknownFilesLimit }
