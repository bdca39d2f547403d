package natsembed

import (
	"errors"
	"os"
	"path/filepath"
	"testing"

	"github.com/nats-io/nats-server/v2/server"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/kvslots/kvslots/kvslots/kvslotstest"
	"github.com/kvslots/kvslots/natsembed/internal/flush"
)

// With a stream whose blocks do not contain the written bytes, nats-server flushes
// each write itself.
func TestUngroupableStreamFallsBack(t *testing.T) {
	dir := t.TempDir()
	srv := startServer(t, Config{DataDir: dir})
	_, err := connect(t, srv).CreateStream(t.Context(), jetstream.StreamConfig{
		Name: "S", Subjects: []string{"s"}, Compression: jetstream.S2Compression,
	})
	kvslotstest.Must(t, err)
	kvslotstest.Must(t, srv.Close())
	again := startServer(t, Config{DataDir: dir, Sync: SyncGroup})
	if again.Sync() != SyncAlways || again.Flusher() != nil || !again.nats().JetStreamConfig().SyncAlways {
		t.Errorf("sync is %q", again.Sync())
	}
}

// Where files cannot have a second name, nats-server flushes each write itself. (A directory
// in the place of that name stands for such a file system.)
func TestNoLinksFallBack(t *testing.T) {
	dir := t.TempDir()
	kvslotstest.Must(t, os.MkdirAll(filepath.Join(dir, "link", "x"), 0o700))
	srv := startServer(t, Config{DataDir: dir, Sync: SyncGroup})
	if srv.Sync() != SyncAlways || srv.Flusher() != nil || !srv.nats().JetStreamConfig().SyncAlways {
		t.Errorf("sync is %q", srv.Sync())
	}
}

// A power cut may come before the first flush of a stream. No write to the stream was
// reported as durable then, and the stream must not prevent the start.
func TestNeverFlushedStreamIsSetAside(t *testing.T) {
	dir := t.TempDir()
	srv := startServer(t, Config{DataDir: dir, Sync: SyncGroup})
	put(t, srv, "one")
	flushed(t, srv)
	kvslotstest.Must(t, srv.Close())
	stream := streamPath(srv)
	if err := errors.Join(
		os.Remove(filepath.Join(dir, cleanFile)), os.RemoveAll(filepath.Join(stream, keepDir)),
		os.Truncate(filepath.Join(stream, server.JetStreamMetaFile), 0),
	); err != nil {
		t.Fatal(err)
	}
	startServer(t, Config{DataDir: dir, Sync: SyncGroup})
	if set, err := os.ReadDir(filepath.Join(dir, lostDir)); err != nil || len(set) != 1 {
		t.Errorf("set aside: %v, %v", set, err)
	}
}

// A failed flush is final, and is not repeated.
func TestFailedFlushEndsEverything(t *testing.T) {
	broken := errors.New("broken")
	flushes := 0
	srv, err := start(t.Context(), Config{DataDir: t.TempDir(), Sync: SyncGroup}, func(f *os.File) error {
		if isBlock(filepath.Base(f.Name())) {
			flushes++ // by the flusher's goroutine alone
			return broken
		}
		return f.Sync()
	})
	kvslotstest.Must(t, err)
	put(t, srv, "one")
	done := make(chan error, 1)
	for range 3 {
		srv.Flusher().Durable(func(err error) { done <- err })
		if err := <-done; !errors.Is(err, flush.ErrNotDurable) || !errors.Is(err, broken) {
			t.Errorf("error %v", err)
		}
	}
	<-srv.Failed()
	if err := srv.Close(); err != nil {
		t.Error(err)
	}
	if flushes != 1 {
		t.Errorf("%d flushes were tried", flushes)
	}
	for name, want := range map[string]bool{cleanFile: false, failedFile: true} {
		if _, err := os.Stat(filepath.Join(srv.dir.path, name)); (err == nil) != want {
			t.Errorf("%s: %v", name, err)
		}
	}
	startServer(t, Config{DataDir: srv.dir.path, Sync: SyncGroup})
}
