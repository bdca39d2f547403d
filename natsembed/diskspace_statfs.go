//go:build linux || darwin || freebsd || dragonfly

package natsembed

import "golang.org/x/sys/unix"

// diskSpace returns how many bytes of the disk of a path this process may still use,
// and the size of the disk.
func diskSpace(path string) (free, size uint64, err error) {
	var s unix.Statfs_t
	if err := unix.Statfs(path, &s); err != nil {
		return 0, 0, err
	}
	return uint64(max(0, s.Bavail)) * uint64(s.Bsize), s.Blocks * uint64(s.Bsize), nil // Bavail is signed on some systems
}
