package settings

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
	// ReadTimeout bounds how long the files of a setting may take to be read: a mount may
	// hang.
	ReadTimeout = 5 * time.Second

	maxSettingFile = 4 << 20
)

var (
	errIrregular = errors.New("not a regular file")
	errTooLong   = fmt.Errorf("longer than %d MiB", maxSettingFile>>20)
	errHangs     = fmt.Errorf("cannot be read within %s: its disk or mount does not respond", ReadTimeout)
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

// readFile is readRegular, and returns errHangs after ReadTimeout.
func readFile(path string) ([]byte, error) {
	return withoutHanging(func() ([]byte, error) { return readRegular(path) })
}

// fileOf is the file of a flag; path is empty without one.
type fileOf struct{ flag, path string }

// readFiles returns the contents of files by their flags. Its result has an error, which names
// the flag, for each file that cannot be read; the contents are those of the others.
func readFiles(read func(path string) ([]byte, error), files ...fileOf) (map[string][]byte, error) {
	var found problems
	contents := map[string][]byte{}
	for _, file := range files {
		if file.path == "" {
			continue
		}
		content, err := read(file.path)
		if err != nil {
			found.add(fmt.Errorf("--%s: %w", file.flag, WithoutPath(err)))
			continue
		}
		contents[file.flag] = content
	}
	return contents, found.err()
}

// withoutHanging calls read. It returns errHangs after ReadTimeout, while read goes on.
func withoutHanging[T any](read func() (T, error)) (T, error) {
	return (&PendingRead[T]{Read: read}).Await(context.Background())
}

// PendingRead repeats a read that may hang, in a goroutine of its own. A read that hangs
// stays the only one.
type PendingRead[T any] struct {
	Read func() (T, error)
	done chan readResult[T] // of the read that has not ended yet; nil without
}

type readResult[T any] struct {
	value T
	err   error
}

// Await reads, and returns errHangs after ReadTimeout. While an earlier read goes on, it
// returns errHangs at once, and the result of that read when it has ended.
func (p *PendingRead[T]) Await(ctx context.Context) (value T, err error) {
	if p.done != nil {
		select {
		case result := <-p.done:
			p.done = nil
			return result.value, result.err
		default:
			return value, errHangs
		}
	}
	done := make(chan readResult[T], 1)
	p.done = done
	go func() {
		value, err := p.Read()
		done <- readResult[T]{value, err}
	}()
	select {
	case result := <-done:
		p.done = nil
		return result.value, result.err
	case <-time.After(ReadTimeout):
		return value, errHangs
	case <-ctx.Done():
		return value, ctx.Err()
	}
}
