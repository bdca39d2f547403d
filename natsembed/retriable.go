package natsembed

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"syscall"
)

// passing are the errors of the system for a file that cannot be created, opened or
// extended for now. They do not affect earlier writes.
var passing = []error{
	syscall.ENOSPC, syscall.EDQUOT, // no space
	syscall.EMFILE, syscall.ENFILE, // no descriptors
	syscall.EACCES, syscall.EPERM, syscall.EROFS, fs.ErrPermission,
}

// isPassing reports whether an error is one of passing. nats-server's health check
// returns only the text of an error.
func isPassing(err error) bool { return passingError(err) != nil }

// passingError returns the element of passing that an error is, or nil. Unlike the error,
// it contains no path.
func passingError(err error) error {
	text := fmt.Sprint(err)
	for _, e := range passing {
		if errors.Is(err, e) || strings.Contains(text, e.Error()) {
			return e
		}
	}
	return nil
}

// errFlush is returned when a flush failed. It is never repeated: the kernel may have
// dropped the data, and would report success.
var errFlush = errors.New("flush")

// retriable reports whether the next pass of a Flusher may succeed after an error.
func retriable(err error) bool { return !errors.Is(err, errFlush) && isPassing(err) }

// startSpace is the free space in bytes that a start needs: the server writes a record or
// two for each lease.
const startSpace = 1 << 20

// startFiles is how many files a start may need to have open at once.
const startFiles = 32

// startable returns an error if a start of the server would fail for now.
func (d *dataDir) startable() error {
	if err := d.openable(); err != nil {
		return err
	}
	return d.tryWrite(startSpace)
}

// openable returns an error if the files of the streams cannot all be opened, and
// startFiles more. nats-server would begin without the blocks that it cannot open.
func (d *dataDir) openable() (err error) {
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
	err = filepath.WalkDir(d.streamsPath(), func(path string, entry fs.DirEntry, err error) error {
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

func (d *dataDir) tryWrite(n int) (err error) {
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
