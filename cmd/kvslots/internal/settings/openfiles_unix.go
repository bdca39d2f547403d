//go:build unix

package settings

import "golang.org/x/sys/unix"

func openFilesLimit() uint64 {
	var limit unix.Rlimit
	if err := unix.Getrlimit(unix.RLIMIT_NOFILE, &limit); err != nil {
		return unknownFilesLimit
	}
	return uint64(limit.Cur)
}
