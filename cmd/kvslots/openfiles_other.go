//go:build !unix

package main

// openFilesLimit returns a guess: the system has no such limit.
func openFilesLimit() uint64 { return unknownFilesLimit }
