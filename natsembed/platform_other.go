//go:build !unix

package natsembed

import "os"

// groupSyncPossible is true where files have inode numbers.
const groupSyncPossible = false

// inode returns the number that a file keeps under all its names.
func inode(os.FileInfo) uint64 { return 0 }

// flushFile does nothing where directories cannot be flushed.
func flushFile(*os.File) error { return nil }
