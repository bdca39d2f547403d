//go:build unix

package main

import (
	"io/fs"
	"os"
	"syscall"
)

// isOfAnother reports whether a file belongs to another user.
func isOfAnother(info fs.FileInfo) bool {
	stat, ok := info.Sys().(*syscall.Stat_t)
	return ok && int(stat.Uid) != os.Geteuid()
}
