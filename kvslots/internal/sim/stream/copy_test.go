package stream_test

import (
	"os"
	"testing"
)

// copyDir copies the directory of a running server: the state that the server would
// find if it were killed now.
func copyDir(t testing.TB, dir string) string {
	t.Helper()
	to := t.TempDir()
	if err := os.CopyFS(to, os.DirFS(dir)); err != nil {
		t.Fatal(err)
	}
	return to
}
