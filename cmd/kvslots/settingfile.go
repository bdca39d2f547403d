package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"syscall"
	"time"
)

const (
	// readTimeout bounds how long the files of a setting may take to be read: a mount may
	// hang.
	readTimeout = 5 * time.Second

	// maxSettingFile is the maximal length of a file of a setting, in bytes.
	maxSettingFile = 4 << 20
)

var (
	errIrregular = errors.New("not a regular file")
	errTooLong   = fmt.Errorf("longer than %d MiB", maxSettingFile>>20)
	errHangs     = fmt.Errorf("cannot be read within %s: its disk or mount does not respond", readTimeout)
)

// readRegular returns the content of a file, which may be named by a symbolic link. It reads
// regular files only: opening a pipe would block until another process writes to it.
func readRegular(path string) ([]byte, error) {
	file, err := os.OpenFile(path, os.O_RDONLY|syscall.O_NONBLOCK, 0)
	if err != nil {
		return nil, err
	}
	defer file.Close()
	refused := func(why error) ([]byte, error) { return nil, &fs.PathError{Op: "read", Path: path, Err: why} }
	info, err := file.Stat()
	if err != nil {
		return nil, err
	}
	if !info.Mode().IsRegular() {
		return refused(errIrregular)
	}
	content, err := io.ReadAll(io.LimitReader(file, maxSettingFile+1))
	if len(content) > maxSettingFile {
		return refused(errTooLong)
	}
	return content, err
}

// readSetting is readRegular for the start of a process. It returns errHangs after
// readTimeout.
func readSetting(path string) ([]byte, error) {
	var content []byte
	err := withoutHanging(func() (err error) {
		content, err = readRegular(path)
		return err
	})
	if err != nil {
		return nil, err // and not content, which a read that hangs may still set
	}
	return content, nil
}

// withoutHanging calls read. It returns errHangs after readTimeout, while read goes on.
func withoutHanging(read func() error) error {
	return (&pendingRead{read: read}).await(context.Background())
}

// pendingRead repeats a read that may hang, in a goroutine of its own. A read that hangs
// stays the only one.
type pendingRead struct {
	read func() error
	done chan error // of the read that has not ended yet; nil without
}

// await reads, and returns errHangs after readTimeout. While an earlier read goes on, it
// returns errHangs at once, and the result of that read when it has ended.
func (p *pendingRead) await(ctx context.Context) (err error) {
	if p.done != nil {
		select {
		case err = <-p.done:
			p.done = nil
			return err
		default:
			return errHangs
		}
	}
	done := make(chan error, 1)
	p.done = done
	go func() { done <- p.read() }()
	select {
	case err = <-done:
		p.done = nil
		return err
	case <-time.After(readTimeout):
		return errHangs
	case <-ctx.Done():
		return ctx.Err()
	}
}
