package settings

import (
	"context"
	"errors"
	"fmt"
	"io"
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
	info, err := file.Stat()
	if err == nil && !info.Mode().IsRegular() {
		err = errIrregular
	}
	if err != nil {
		return nil, err
	}
	content, err := io.ReadAll(io.LimitReader(file, maxSettingFile+1))
	if len(content) > maxSettingFile {
		return nil, errTooLong
	}
	return content, err
}

// readFile is readRegular, and returns errHangs after ReadTimeout.
func readFile(path string) ([]byte, error) {
	p := pendingRead[[]byte]{read: func() ([]byte, error) { return readRegular(path) }}
	return p.await(context.Background())
}

// fileOf is the file of a flag; path is empty without one.
type fileOf struct{ flag, path string }

// Contents has the contents of files by their flags.
type Contents = map[string][]byte

// readFiles returns the contents of files. Its result has an error, which names the flag, for
// each file that cannot be read; the contents are those of the others.
func readFiles(read func(path string) ([]byte, error), files ...fileOf) (Contents, error) {
	var found problems
	contents := Contents{}
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

// pendingRead repeats a read that may hang, in a goroutine of its own. A read that hangs
// stays the only one.
type pendingRead[T any] struct {
	read func() (T, error)
	done chan readResult[T] // of the read that has not ended yet; nil without
}

type readResult[T any] struct {
	value T
	err   error
}

// await reads, and returns errHangs after ReadTimeout. While an earlier read goes on, it
// returns errHangs at once, and the result of that read when it has ended.
func (p *pendingRead[T]) await(ctx context.Context) (value T, err error) {
	if p.done != nil && len(p.done) == 0 {
		return value, errHangs
	}
	if p.done == nil {
		done := make(chan readResult[T], 1)
		p.done = done
		go func() {
			value, err := p.read()
			done <- readResult[T]{value, err}
		}()
	}
	select {
	case result := <-p.done:
		p.done = nil
		return result.value, result.err
	case <-time.After(ReadTimeout):
		return value, errHangs
	case <-ctx.Done():
		return value, ctx.Err()
	}
}
