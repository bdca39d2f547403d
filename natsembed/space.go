package natsembed

import (
	"errors"
	"fmt"
	"os"
	"strings"
	"syscall"
)

// errFull is returned when a name could not be created because the disk is full.
// Nothing is lost: the next pass tries again. A failed flush is never errFull.
var errFull = errors.New("the disk is full")

// createError wraps the error of a name that could not be created.
func createError(err error) error {
	if isNoSpace(err) {
		return fmt.Errorf("%w: %w: %w", ErrNotDurable, errFull, err)
	}
	return err
}

func isFull(err error) bool { return errors.Is(err, errFull) }

// isNoSpace reports whether an error says that the disk is full. nats-server's health
// check returns only the text of an error.
func isNoSpace(err error) bool {
	return errors.Is(err, syscall.ENOSPC) || errors.Is(err, syscall.EDQUOT) || isNoSpaceText(fmt.Sprint(err))
}

func isNoSpaceText(text string) bool {
	return strings.Contains(text, syscall.ENOSPC.Error()) || strings.Contains(text, syscall.EDQUOT.Error())
}

// leastRoom is the free space in bytes that a restart needs: the server writes a
// record or two for each lease.
const leastRoom = 1 << 20

// hasRoom reports whether leastRoom bytes can be written.
func (d *dataDir) hasRoom() (ok bool, err error) {
	f, err := os.CreateTemp(d.path, "room-*")
	if err != nil {
		return false, unlessNoSpace(err)
	}
	defer func() { err = errors.Join(err, f.Close(), os.Remove(f.Name())) }()
	if _, err := f.Write(make([]byte, leastRoom)); err != nil {
		return false, unlessNoSpace(err)
	}
	if err := f.Sync(); err != nil {
		return false, unlessNoSpace(err)
	}
	return true, nil
}

func unlessNoSpace(err error) error {
	if isNoSpace(err) {
		return nil
	}
	return err
}
