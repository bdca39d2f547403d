package stream_test

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"testing"
)

// copyDir copies the directory of a running server: the state that the server would
// find if it were killed now. It leaves out what the server removes or renames
// meanwhile, such as a temporary file of its index.
func copyDir(t testing.TB, dir string) string {
	t.Helper()
	to := t.TempDir()
	if err := filepath.WalkDir(dir, func(path string, d fs.DirEntry, err error) error {
		if err == nil {
			err = copyEntry(filepath.Join(to, path[len(dir):]), path, d)
		}
		if errors.Is(err, fs.ErrNotExist) {
			return nil
		}
		return err
	}); err != nil {
		t.Fatal(err)
	}
	return to
}

func copyEntry(to, from string, d fs.DirEntry) error {
	if d.IsDir() {
		return os.MkdirAll(to, 0o700)
	}
	data, err := os.ReadFile(from)
	if err != nil {
		return err
	}
	return os.WriteFile(to, data, 0o600)
}
