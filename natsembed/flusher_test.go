package natsembed

import (
	"errors"
	"os"
	"path/filepath"
	"sync"
	"testing"

	"github.com/nats-io/nats.go/jetstream"

	"github.com/kvslots/kvslots/kvslots/kvslotstest"
	"github.com/kvslots/kvslots/natsembed/internal/flush"
)

// flushed waits until every earlier write is durable.
func flushed(t *testing.T, srv *Server) {
	t.Helper()
	done := make(chan error, 1)
	srv.Flusher().Durable(func(err error) { done <- err })
	kvslotstest.Must(t, <-done)
}

// likeTheBucket creates stream S, which keeps one record per subject.
func likeTheBucket(t *testing.T, srv *Server) jetstream.JetStream {
	t.Helper()
	js := connect(t, srv)
	kvslotstest.Must(t, kvslotstest.Err(js.CreateStream(t.Context(), bucketLike)))
	return js
}

var bucketLike = jetstream.StreamConfig{
	Name: "S", Subjects: []string{"s.*"}, MaxMsgsPerSubject: 1, Discard: jetstream.DiscardNew, AllowRollup: true,
}

func streamPath(srv *Server) string { return filepath.Join(streamsPath(srv), "S") }

func TestGroupSyncDoesNotFallBack(t *testing.T) {
	srv := startServer(t, Config{DataDir: t.TempDir(), Sync: SyncGroup})
	if srv.Sync() != SyncGroup || srv.Flusher() == nil {
		t.Fatalf("sync is %q", srv.Sync())
	}
	put(t, srv, "one")
	flushed(t, srv)
}

// The first flush of a stream makes the directories durable that the start has created.
func TestFlushReachesNewDirectories(t *testing.T) {
	dir := t.TempDir()
	var mu sync.Mutex
	names := map[string]bool{}
	srv, err := start(t.Context(), Config{DataDir: filepath.Join(dir, "some", "where"), Sync: SyncGroup}, func(f *os.File) error {
		mu.Lock()
		defer mu.Unlock()
		names[f.Name()] = true
		return nil
	})
	kvslotstest.Must(t, err)
	defer srv.Close()
	put(t, srv, "one")
	flushed(t, srv)
	mu.Lock()
	defer mu.Unlock()
	for at := streamPath(srv); at != filepath.Dir(dir); at = filepath.Dir(at) {
		if !names[at] {
			t.Errorf("%s is not flushed", at)
		}
	}
}

func TestCloseLeavesACleanDirectory(t *testing.T) {
	dir := t.TempDir()
	srv := startServer(t, Config{DataDir: dir, Sync: SyncGroup})
	put(t, srv, "one")
	flushed(t, srv)
	kvslotstest.Must(t, srv.Close())
	if links, err := listLinks(streamPath(srv)); err != nil || len(links) > 0 {
		t.Errorf("links %v, %v after a clean stop", links, err)
	}
	if _, err := os.Stat(filepath.Join(dir, cleanFile)); err != nil {
		t.Error(err)
	}
	again := startServer(t, Config{DataDir: dir, Sync: SyncGroup})
	if got := messages(t, again); got != 1 {
		t.Errorf("%d messages after a restart, want 1", got)
	}
	if _, err := os.Stat(filepath.Join(dir, cleanFile)); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("a running server's directory is clean: %v", err)
	}
}

func TestDurableAfterCloseFails(t *testing.T) {
	srv := startServer(t, Config{DataDir: t.TempDir(), Sync: SyncGroup})
	flusher := srv.Flusher()
	kvslotstest.Must(t, srv.Close())
	var got error
	flusher.Durable(func(err error) { got = err })
	if !errors.Is(got, flush.ErrNotDurable) {
		t.Errorf("error %v", got)
	}
}

// After a failed flush no write is reported as durable.
func TestFlushErrorIsFinal(t *testing.T) {
	srv := startServer(t, Config{DataDir: t.TempDir(), Sync: SyncGroup})
	put(t, srv, "one")
	flushed(t, srv)
	kvslotstest.Must(t, os.RemoveAll(filepath.Join(streamPath(srv), keepDir)))
	js := connect(t, srv)
	if err := js.DeleteStream(t.Context(), "none"); !errors.Is(err, jetstream.ErrStreamNotFound) {
		t.Fatal(err)
	}
	// A new block cannot be linked.
	msgs := filepath.Join(streamPath(srv), msgsDir)
	kvslotstest.Must(t, os.WriteFile(filepath.Join(msgs, "7.blk"), []byte("x"), 0o600))
	done := make(chan error, 1)
	srv.Flusher().Durable(func(err error) { done <- err })
	if err := <-done; !errors.Is(err, flush.ErrNotDurable) {
		t.Fatalf("error %v", err)
	}
	<-srv.Failed()
	if srv.Err() == nil {
		t.Error("no reason is given")
	}
	srv.Flusher().Durable(func(err error) { done <- err })
	if err := <-done; !errors.Is(err, flush.ErrNotDurable) {
		t.Errorf("later error %v", err)
	}
	kvslotstest.Must(t, srv.Close())
	if _, err := os.Stat(filepath.Join(srv.dir.path, cleanFile)); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("a failed server left a clean directory: %v", err)
	}
}
