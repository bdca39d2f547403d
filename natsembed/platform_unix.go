//go:build unix

package natsembed

import (
	"os"
	"syscall"
)

// groupSyncPossible reports whether files have inode numbers.
const groupSyncPossible = true

// inode returns the inode number of a file, which all its names share.
func inode(info os.FileInfo) uint64 {
	if stat, ok := info.Sys().(*syscall.Stat_t); ok {
		return uint64(stat.Ino) // a narrower type on some systems
	}
	return 0
}

// flushFile flushes a file's content, or a directory's names.
func flushFile(f *os.File) error { return f.Sync() }
