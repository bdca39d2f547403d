package natsembed

import (
	"errors"
	"os"

	"golang.org/x/sys/unix"
)

// dropCache has the kernel forget what it holds of a file in memory, but for what is
// still to be written.
func dropCache(path string) (err error) {
	f, err := os.Open(path)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, f.Close()) }()
	return unix.Fadvise(int(f.Fd()), 0, 0, unix.FADV_DONTNEED)
}
