package flush

import (
	"errors"
	"os"

	"golang.org/x/sys/unix"
)

// dropCache drops the kernel's cache of a file, except data that is still to be written.
func dropCache(path string) (err error) {
	f, err := os.Open(path)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, f.Close()) }()
	return unix.Fadvise(int(f.Fd()), 0, 0, unix.FADV_DONTNEED)
}
