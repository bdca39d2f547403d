//go:build unix

package main

import (
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"github.com/kvslots/kvslots/kvslots/kvslotstest"
)

// A backup is written to files of its user only: another user may have put a link or a pipe there.
func TestTargetOfABackup(t *testing.T) {
	const another = 65534
	own := os.Geteuid()
	dir := t.TempDir()
	at := func(name string) string { return filepath.Join(dir, name) }
	link := func(path, target string, owner int) {
		kvslotstest.Must(t, os.Symlink(target, path))
		kvslotstest.Must(t, os.Lchown(path, owner, -1))
	}
	kvslotstest.Must(t, os.WriteFile(at("victim"), []byte("kept"), 0o644))
	kvslotstest.Must(t, syscall.Mkfifo(at("pipe"), 0o600))
	link(at("own"), "target", own)
	link(at("loop"), "loop", own)
	cases := map[string]string{"new": "", "own": "", "pipe": "is not a regular file", "loop": "too many symbolic links"}
	if own == 0 {
		link(at("theirs"), at("victim"), another)
		link(at("chain"), at("theirs"), own)
		kvslotstest.Must(t, os.WriteFile(at("file"), nil, 0o666))
		kvslotstest.Must(t, os.Chown(at("file"), another, -1))
		for _, name := range []string{"theirs", "chain", "file"} {
			cases[name] = "belongs to another user"
		}
	}
	for name, want := range cases {
		err := writeBackup(at(name), []byte("backup"))
		if (err == nil) != (want == "") || err != nil && !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v", name, err)
		}
	}
	for name, want := range map[string]string{"victim": "kept", "new": "backup", "target": "backup"} {
		if content, err := os.ReadFile(at(name)); err != nil || string(content) != want {
			t.Errorf("%s has %q, %v", name, content, err)
		}
	}
	if info, err := os.Stat(at("target")); err != nil || info.Mode() != 0o600 {
		t.Errorf("%v, %v", info, err)
	}
}
