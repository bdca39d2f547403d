//go:build unix

package flush

import (
	"errors"
	"os"
	"syscall"
)

// inode returns the inode number of a file, which all its names share.
func inode(info os.FileInfo) uint64 {
	if stat, ok := info.Sys().(*syscall.Stat_t); ok {
		return uint64(stat.Ino) // a narrower type on some systems
	}
	return 0
}

func sameDevice(a, b string) (bool, error) {
	var of [2]syscall.Stat_t
	err := errors.Join(syscall.Stat(a, &of[0]), syscall.Stat(b, &of[1]))
	return of[0].Dev == of[1].Dev, err
}

// flushFile flushes a file's content, or a directory's names.
func flushFile(f *os.File) error { return f.Sync() }
