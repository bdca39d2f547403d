package flush

import (
	"errors"
	"os"
	"path/filepath"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"github.com/kvslots/kvslots/kvslots/kvslotstest"
)

// newStream creates the directories of a stream with empty blocks.
func newStream(t *testing.T, sync Syncer, names ...string) *blocks {
	t.Helper()
	s := newBlocks(t.TempDir(), sync)
	for _, name := range []string{msgsDir, keepDir} {
		kvslotstest.Must(t, os.Mkdir(s.path(name), 0o700))
	}
	write(t, s.path("meta.inf"), `{"name":"S","storage":"file","num_replicas":1}`)
	for _, name := range names {
		write(t, filepath.Join(s.path(msgsDir), name), "")
	}
	t.Cleanup(func() {
		if err := s.close(); err != nil {
			t.Error(err)
		}
	})
	return s
}

// A write that comes while its block is being flushed is for the next flush.
func TestWriteDuringAFlush(t *testing.T) {
	var during func(f *os.File) error
	s := newStream(t, func(f *os.File) error { return during(f) }, "1.blk")
	flushes := 0
	during = func(f *os.File) error {
		if !isBlock(filepath.Base(f.Name())) {
			return nil
		}
		if flushes++; flushes > 2 {
			return nil
		}
		return appendTo(f.Name(), "x") // after the flush of what was there
	}
	for range 4 {
		kvslotstest.Must(t, s.flush())
	}
	if flushes != 3 { // the first is that of the whole stream, which is new
		t.Errorf("%d flushes, the third of which was due", flushes)
	}
}

func appendTo(path, text string) error {
	f, err := os.OpenFile(path, os.O_WRONLY|os.O_APPEND, 0)
	if err != nil {
		return err
	}
	_, err = f.WriteString(text)
	return errors.Join(err, f.Close())
}

// Each block that a power cut may bring back to msgs has a link, until its removal is on the
// disk: putBack restores with it what superseded its records.
func TestRemovedBlocksKeepTheirLinks(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newStream(t, flushFile, "1.blk", "2.blk", "3.blk")
		kvslotstest.Must(t, s.flush())
		var onDisk []string // names that may be in msgs after a power cut
		s.sync = func(f *os.File) error {
			links, err := listLinks(s.dir)
			for _, name := range onDisk {
				if !slices.ContainsFunc(links, func(l link) bool { return l.block == name }) {
					t.Errorf("%s has no link when %s is flushed", name, f.Name())
				}
			}
			if f.Name() == s.path(msgsDir) {
				names, err2 := listNames(f.Name())
				onDisk, err = names, errors.Join(err, err2)
			}
			return err
		}
		for _, name := range []string{"1.blk", "2.blk"} {
			var err error
			onDisk, err = listNames(s.path(msgsDir)) // the kernel writes names at any time
			err = errors.Join(err, os.Remove(filepath.Join(s.path(msgsDir), name)), s.flush(), s.drop(reportTime))
			kvslotstest.Must(t, err)
			time.Sleep(reportTime)
			kvslotstest.Must(t, s.drop(reportTime))
		}
		if links, err := listLinks(s.dir); err != nil || len(links) != 1 {
			t.Errorf("links %v, %v are left", links, err)
		}
	})
}
