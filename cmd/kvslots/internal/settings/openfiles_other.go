//go:build !unix

package settings

// openFilesLimit returns a guess: not every system can report its limit.
func openFilesLimit() uint64 { return unknownFilesLimit }
