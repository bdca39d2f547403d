//go:build unix

package natsembed

import (
	"os"
	"syscall"
)

// groupSyncPossible is true where files have inode numbers.
const groupSyncPossible = true

// inode returns the number that a file keeps under all its names.
func inode(info os.FileInfo) uint64 {
	if stat, ok := info.Sys().(*syscall.Stat_t); ok {
		return uint64(stat.Ino) // narrower on some systems
	}
	return 0
}

// flushFile flushes a file, or the names in a directory.
func flushFile(f *os.File) error { return f.Sync() }
