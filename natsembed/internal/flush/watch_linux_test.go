package flush

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"testing"

	"github.com/kvslots/kvslots/kvslots/kvslotstest"
)

func TestWatchReportsChangedNames(t *testing.T) {
	dir := t.TempDir()
	w := newWatch(dir)
	if w == nil {
		t.Fatal("no watch")
	}
	defer w.close()
	msgs, aside := filepath.Join(dir, "msgs"), filepath.Join(dir, "aside")
	block, moved := filepath.Join(msgs, "1.blk"), filepath.Join(msgs, "2.blk")
	steps := []struct {
		name string
		do   func() error
		want bool
	}{
		{"nothing", func() error { return nil }, false},
		{"not watched yet", func() error { return os.Mkdir(msgs, 0o700) }, false},
		{"made", func() error { w.add(msgs); return os.WriteFile(block, []byte("x"), 0o600) }, true},
		{"appended to", func() error { return appendTo(block, "y") }, false},
		{"linked to elsewhere", func() error { return os.Link(block, filepath.Join(dir, "link")) }, false},
		{"renamed", func() error { return os.Rename(block, moved) }, true},
		{"removed", func() error { return os.Remove(moved) }, true},
		{"replaced", func() error { return os.Rename(msgs, aside) }, true},
		{"added again", func() error { w.add(aside); return os.WriteFile(filepath.Join(aside, "1.blk"), nil, 0o600) }, true},
		{"the directory is removed", func() error { return os.RemoveAll(aside) }, true},
	}
	for _, step := range steps {
		if err := step.do(); err != nil {
			t.Fatalf("%s: %v", step.name, err)
		}
		if got := w.changed(); got != step.want {
			t.Errorf("%s: changed is %v", step.name, got)
		}
	}
	if w.add(msgs) {
		t.Error("a directory that is not there is watched")
	}
}

// A watch reports a change when the kernel's event queue has overflowed.
func TestWatchReportsAnOverflow(t *testing.T) {
	dir := t.TempDir()
	w := newWatch(dir)
	if w == nil {
		t.Fatal("no watch")
	}
	defer w.close()
	w.add(dir)
	for i := range 20_000 {
		path := filepath.Join(dir, fmt.Sprint(i))
		kvslotstest.Must(t, errors.Join(os.WriteFile(path, nil, 0o600), os.Remove(path)))
	}
	if !w.changed() {
		t.Error("no change is reported")
	}
	if w.changed() {
		t.Error("a change is reported twice")
	}
}
