//go:build unix

package natsembed

import (
	"fmt"
	"os"
	"syscall"
)

// checkOwner returns an error if another user owns a directory, or may write to it.
func checkOwner(path string) error {
	info, err := os.Stat(path)
	if err != nil {
		return err
	}
	stat, ok := info.Sys().(*syscall.Stat_t)
	switch {
	case ok && int(stat.Uid) != os.Geteuid():
		return fmt.Errorf("it belongs to the user %d, and this process runs as %d: run it as the owner, or choose another directory", stat.Uid, os.Geteuid())
	case info.Mode().Perm()&0o022 != 0:
		return fmt.Errorf("others may write to it (mode %#o): chmod go-w", info.Mode().Perm())
	}
	return nil
}
