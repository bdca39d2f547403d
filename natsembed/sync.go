package natsembed

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
)

// syncer flushes an open file's content, or an open directory's names. Its methods wrap
// its errors in errFlush.
type syncer func(*os.File) error

func (s syncer) file(f *os.File) error {
	if err := s(f); err != nil {
		return fmt.Errorf("%w: %w", errFlush, err)
	}
	return nil
}

func (s syncer) path(path string) (err error) {
	f, err := os.Open(path)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, f.Close()) }()
	return s.file(f)
}

// tree flushes a directory and every file and directory below it, except those
// that are removed meanwhile.
func (s syncer) tree(dir string) error {
	return filepath.WalkDir(dir, func(path string, entry fs.DirEntry, err error) error {
		if err == nil && (entry.IsDir() || entry.Type().IsRegular()) {
			err = s.path(path)
		}
		if errors.Is(err, fs.ErrNotExist) {
			return nil
		}
		return err
	})
}

// up flushes dir and the directories above it, as far as its file system reaches. It stops
// at a directory that this process may not read, and so has not created.
func (s syncer) up(dir string) error {
	for {
		err := s.path(dir)
		if errors.Is(err, fs.ErrPermission) && !errors.Is(err, errFlush) {
			return nil
		}
		if err != nil {
			return err
		}
		above := filepath.Dir(dir)
		same, err := sameDevice(dir, above)
		if err != nil || !same || above == dir {
			return err
		}
		dir = above
	}
}

// write writes a file and flushes it. After a power cut during the call the file has its
// old content or all of the new one.
func (s syncer) write(path string, data []byte) (err error) {
	const mode = 0o600
	temporary := path + ".tmp"
	if err := os.WriteFile(temporary, data, mode); err != nil {
		return err
	}
	if err := s.path(temporary); err != nil {
		return err
	}
	if err := os.Rename(temporary, path); err != nil {
		return err
	}
	return s.path(filepath.Dir(path))
}
