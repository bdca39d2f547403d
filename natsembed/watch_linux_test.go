package natsembed

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"sync"
	"testing"

	"github.com/nats-io/nats.go/jetstream"
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
		if err := errors.Join(os.WriteFile(path, nil, 0o600), os.Remove(path)); err != nil {
			t.Fatal(err)
		}
	}
	if !w.changed() {
		t.Error("no change is reported")
	}
	if w.changed() {
		t.Error("a change is reported twice")
	}
}

// A pass without a listing still covers all acknowledged writes, whatever changes the
// server made to the streams' files since the last listing.
func TestPassCoversChangedNames(t *testing.T) {
	var mu sync.Mutex
	sizes := map[uint64]int64{}
	srv, err := start(t.Context(), Config{DataDir: t.TempDir(), Sync: SyncGroup}, func(f *os.File) error {
		info, err := f.Stat()
		mu.Lock()
		defer mu.Unlock()
		sizes[inode(info)] = info.Size()
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	defer srv.Close()
	js := likeTheBucket(t, srv)
	stream, err := js.Stream(t.Context(), "S")
	if err != nil {
		t.Fatal(err)
	}
	purge := func() error { return stream.Purge(t.Context()) }
	remake := func() error {
		if err := js.DeleteStream(t.Context(), "S"); err != nil {
			return err
		}
		likeTheBucket(t, srv)
		return nil
	}
	second := func() error {
		_, err := js.CreateStream(t.Context(), jetstream.StreamConfig{Name: "T", Subjects: []string{"t.*"}})
		return err
	}
	for i, change := range []func() error{second, purge, remake, purge} {
		if err := change(); err != nil {
			t.Fatal(err)
		}
		for n := range 300 { // more than one block
			for _, subject := range []string{"s", "t"} {
				if _, err := js.Publish(t.Context(), fmt.Sprintf("%s.%d", subject, n%7), make([]byte, maxBallast)); err != nil {
					t.Fatal(err)
				}
			}
			if n%30 == 0 {
				flushed(t, srv)
				mu.Lock()
				checkCovered(t, srv, sizes)
				mu.Unlock()
			}
		}
		if t.Failed() {
			t.Fatalf("change %d", i)
		}
	}
}

// checkCovered fails unless each block is flushed completely and has a link.
func checkCovered(t *testing.T, srv *Server, sizes map[uint64]int64) {
	t.Helper()
	streams, err := listStreams(srv.dir.streamsPath())
	if err != nil {
		t.Fatal(err)
	}
	for _, stream := range streams {
		dir := filepath.Join(srv.dir.streamsPath(), stream)
		links, err := listLinks(dir)
		if err != nil {
			t.Fatal(err)
		}
		linked := map[uint64]bool{}
		for _, l := range links {
			linked[l.inode] = true
		}
		blocks, err := filepath.Glob(filepath.Join(dir, msgsDir, "*"+blockSuffix))
		if err != nil {
			t.Fatal(err)
		}
		for _, path := range blocks {
			info, err := os.Lstat(path)
			if err != nil {
				continue // the server has removed it meanwhile
			}
			if size, ok := sizes[inode(info)]; !ok || size != info.Size() || !linked[inode(info)] {
				t.Errorf("%s: %d bytes are flushed of %d, linked %v", path, size, info.Size(), linked[inode(info)])
			}
		}
	}
}
