package bench

import (
	"errors"
	"os"
	"path/filepath"
	"strings"

	"github.com/gofrs/flock"
)

const tempPrefix, lockSuffix = "kvslots-bench-", ".lock"

// TempDir makes a directory for a server's data below dir; "" means the directory for
// temporary files. remove removes it. A program that is killed cannot, so TempDir first
// removes the directories that no running program has locked.
func TempDir(dir string) (path string, remove func() error, err error) {
	if dir == "" {
		dir = os.TempDir()
	}
	left, err := filepath.Glob(filepath.Join(dir, tempPrefix+"*"+lockSuffix))
	if err != nil {
		return "", nil, err
	}
	for _, name := range left {
		if lock, ok := lockTemp(name); ok {
			_ = removeTemp(lock) // as far as this user may
		}
	}
	for {
		file, err := os.CreateTemp(dir, tempPrefix+"*"+lockSuffix)
		if err != nil {
			return "", nil, err
		}
		if err := file.Close(); err != nil {
			return "", nil, err
		}
		if lock, ok := lockTemp(file.Name()); ok { // otherwise another TempDir has just removed it
			path := strings.TrimSuffix(file.Name(), lockSuffix)
			if err := os.Mkdir(path, 0o700); err != nil {
				return "", nil, errors.Join(err, removeTemp(lock))
			}
			return path, func() error { return removeTemp(lock) }, nil
		}
	}
}

// lockTemp locks a lock file. ok is false if the file is locked, or was removed before it
// could be locked.
func lockTemp(name string) (lock *flock.Flock, ok bool) {
	lock = flock.New(name, flock.SetFlag(os.O_RDWR)) // creates no file
	if locked, err := lock.TryLock(); !locked || err != nil {
		return nil, false
	}
	if _, err := os.Stat(name); err != nil {
		_ = lock.Unlock()
		return nil, false
	}
	return lock, true
}

func removeTemp(lock *flock.Flock) error {
	if err := os.RemoveAll(strings.TrimSuffix(lock.Path(), lockSuffix)); err != nil {
		return errors.Join(err, lock.Unlock())
	}
	kept := os.Remove(lock.Path()) // before it is unlocked: another TempDir could lock it
	err := lock.Unlock()
	if kept != nil {
		_ = os.Remove(lock.Path()) // Windows removes no open file
	}
	return err
}
