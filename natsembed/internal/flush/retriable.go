package flush

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"syscall"
)

// passing are the errors that Passing returns. They do not affect earlier writes.
var passing = []error{
	syscall.ENOSPC, syscall.EDQUOT, // no space
	syscall.EMFILE, syscall.ENFILE, // no descriptors
	syscall.EACCES, syscall.EPERM, syscall.EROFS, fs.ErrPermission,
}

// Passing returns the system's error that an error is, if a file cannot be created, opened or
// extended for now, and else nil. Unlike the error, it contains no path. nats-server reports
// some errors only as a text.
func Passing(err error) error {
	text := fmt.Sprint(err)
	for _, e := range passing {
		if errors.Is(err, e) || strings.Contains(text, e.Error()) {
			return e
		}
	}
	return nil
}

// ErrFailed is returned when a flush failed. It is never repeated: the kernel may have
// dropped the data, and would report success.
var ErrFailed = errors.New("flush")

// Retriable reports whether the next pass of a Flusher may succeed after an error.
func Retriable(err error) bool { return !errors.Is(err, ErrFailed) && Passing(err) != nil }

// startSpace is the free space in bytes that a start needs: the server writes a record or
// two for each lease.
const startSpace = 1 << 20

// startFiles is how many files a start may need to have open at once.
const startFiles = 32

// startable returns an error if a start of the server would fail for now.
func (d *Dir) startable() error {
	if err := d.openable(); err != nil {
		return err
	}
	return d.tryWrite(startSpace)
}

// openable returns an error if the files of the streams cannot all be opened, and
// startFiles more. nats-server would begin without the blocks that it cannot open.
func (d *Dir) openable() (err error) {
	spare := make([]*os.File, 0, startFiles)
	defer func() {
		for _, f := range spare {
			err = errors.Join(err, f.Close())
		}
	}()
	for range startFiles {
		f, err := os.Open(d.path)
		if err != nil {
			return err
		}
		spare = append(spare, f)
	}
	err = filepath.WalkDir(d.streams, func(path string, entry fs.DirEntry, err error) error {
		if err != nil || !entry.Type().IsRegular() {
			return err
		}
		f, err := os.OpenFile(path, os.O_RDWR, 0)
		if err != nil {
			return err
		}
		return f.Close()
	})
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	return err
}

func (d *Dir) tryWrite(n int) (err error) {
	f, err := os.CreateTemp(d.path, "room-*")
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, f.Close(), os.Remove(f.Name())) }()
	if _, err := f.Write(make([]byte, n)); err != nil {
		return err
	}
	return f.Sync()
}
