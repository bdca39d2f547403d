package natsembed

import (
	"errors"
	"fmt"
	"os"
	"strings"
	"syscall"
)

// errFull wraps that a name could not be made for want of space. Nothing was lost:
// the next pass tries again. A flush that fails for want of space is another thing.
var errFull = errors.New("the disk is full")

// notMade is the error of a name that could not be made.
func notMade(err error) error {
	if isNoSpace(err) {
		return fmt.Errorf("%w: %w: %w", ErrNotDurable, errFull, err)
	}
	return err
}

func isFull(err error) bool { return errors.Is(err, errFull) }

// isNoSpace reports whether an error is for want of space. nats-server hands out
// texts only.
func isNoSpace(err error) bool {
	return errors.Is(err, syscall.ENOSPC) || errors.Is(err, syscall.EDQUOT) || isNoSpaceText(fmt.Sprint(err))
}

func isNoSpaceText(text string) bool {
	return strings.Contains(text, syscall.ENOSPC.Error()) || strings.Contains(text, syscall.EDQUOT.Error())
}

// leastRoom is what must be free for the server to start again: it writes a record
// or two for each lease.
const leastRoom = 1 << 20

// hasRoom reports whether that much can be written.
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
