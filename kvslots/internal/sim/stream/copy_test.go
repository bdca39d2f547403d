package stream_test

import (
	"os"
	"testing"
)

// copyDir copies a server's directory while the server runs: what a server finds
// that was killed at that moment.
func copyDir(t testing.TB, dir string) string {
	t.Helper()
	to := t.TempDir()
	if err := os.CopyFS(to, os.DirFS(dir)); err != nil {
		t.Fatal(err)
	}
	return to
}
