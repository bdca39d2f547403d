//go:build !unix

package natsembed

import "os"

// groupSyncPossible reports whether files have inode numbers.
const groupSyncPossible = false

// inode returns the inode number of a file, which all its names share.
func inode(os.FileInfo) uint64 { return 0 }

// sameDevice reports whether two files are on the same file system, which is not known.
func sameDevice(string, string) (bool, error) { return false, nil }

// flushFile does nothing: not every system can flush directories.
func flushFile(*os.File) error { return nil }
