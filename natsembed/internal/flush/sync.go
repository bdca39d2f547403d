package flush

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
)

// Syncer flushes an open file's content, or an open directory's names. Its methods wrap
// its errors in ErrFailed.
type Syncer func(*os.File) error

func (s Syncer) file(f *os.File) error {
	if err := s(f); err != nil {
		return fmt.Errorf("%w: %w", ErrFailed, err)
	}
	return nil
}

func (s Syncer) path(path string) (err error) {
	f, err := os.Open(path)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, f.Close()) }()
	return s.file(f)
}

// tree flushes a directory and every file and directory below it, except those
// that are removed meanwhile.
func (s Syncer) tree(dir string) error {
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
func (s Syncer) up(dir string) error {
	for {
		err := s.path(dir)
		if errors.Is(err, fs.ErrPermission) && !errors.Is(err, ErrFailed) {
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
func (s Syncer) write(path string, data []byte) (err error) {
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
