//go:build unix

package main

import (
	"os"
	"path/filepath"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/kvslots/kvslots/kvslots/kvslotstest"
)

// A backup must not replace a link, a pipe or a device by a file.
func TestBackupKeepsWhatIsNoFile(t *testing.T) {
	dir := t.TempDir()
	target, link, pipe := filepath.Join(dir, "target"), filepath.Join(dir, "link"), filepath.Join(dir, "pipe")
	kvslotstest.Must(t, os.Symlink(target, link))
	kvslotstest.Must(t, os.WriteFile(target, []byte("before"), 0o600))
	kvslotstest.Must(t, unix.Mkfifo(pipe, 0o600))
	reader, err := os.OpenFile(pipe, os.O_RDWR, 0) // O_RDWR does not wait for a writer
	kvslotstest.Must(t, err)
	defer reader.Close()
	for path, mode := range map[string]os.FileMode{link: os.ModeSymlink, pipe: os.ModeNamedPipe} {
		kvslotstest.Must(t, writeBackup(path, []byte("backup")))
		if info, err := os.Lstat(path); err != nil || info.Mode().Type() != mode {
			t.Errorf("%s: %v, %v", path, info.Mode(), err)
		}
	}
	if content, err := os.ReadFile(target); err != nil || string(content) != "backup" {
		t.Errorf("%q, %v", content, err)
	}
}
