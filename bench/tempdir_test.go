package bench

import (
	"os"
	"path/filepath"
	"sync"
	"testing"

	"github.com/kvslots/kvslots/kvslots/kvslotstest"
	"github.com/kvslots/kvslots/kvslots/logtest"
)

// TempDir removes the directory of a program that was killed, which has no lock any more, and
// not that of a running one.
func TestTempDirRemovesWhatWasLeft(t *testing.T) {
	dir := t.TempDir()
	logtest.SearchDir(dir)
	killed, other := filepath.Join(dir, tempPrefix+"1"), filepath.Join(dir, "kvslots-data")
	for _, name := range []string{killed, other} {
		kvslotstest.Must(t, os.MkdirAll(filepath.Join(name, "jetstream"), 0o700))
	}
	kvslotstest.Must(t, os.WriteFile(killed+lockSuffix, nil, 0o600))
	first, removeFirst, err := TempDir(dir)
	kvslotstest.Must(t, err)
	second, removeSecond, err := TempDir(dir)
	kvslotstest.Must(t, err)
	for name, want := range map[string]bool{killed: false, killed + lockSuffix: false, other: true, first: true, second: true} {
		if _, err := os.Stat(name); (err == nil) != want {
			t.Errorf("%s: %v, want it there: %v", name, err, want)
		}
	}
	for _, remove := range []func() error{removeFirst, removeSecond} {
		if err := remove(); err != nil {
			t.Error(err)
		}
	}
	if left, err := os.ReadDir(dir); err != nil || len(left) != 1 {
		t.Errorf("%v are left, %v", left, err)
	}
}

// Many programs may make directories at once: each has its own, which stays.
func TestTempDirAtOnce(t *testing.T) {
	dir := t.TempDir()
	logtest.SearchDir(dir)
	var wg sync.WaitGroup
	for range 16 {
		wg.Go(func() {
			for range 20 {
				path, remove, err := TempDir(dir)
				if err != nil {
					t.Error(err)
					return
				}
				if err := os.WriteFile(filepath.Join(path, "file"), nil, 0o600); err != nil {
					t.Error(err)
				}
				if err := remove(); err != nil {
					t.Error(err)
				}
			}
		})
	}
	wg.Wait()
}
