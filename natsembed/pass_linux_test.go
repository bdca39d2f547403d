package natsembed

import (
	"fmt"
	"os"
	"path/filepath"
	"sync"
	"testing"

	"github.com/nats-io/nats.go/jetstream"

	"github.com/kvslots/kvslots/kvslots/kvslotstest"
)

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
	kvslotstest.Must(t, err)
	defer srv.Close()
	js := likeTheBucket(t, srv)
	stream, err := js.Stream(t.Context(), "S")
	kvslotstest.Must(t, err)
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
		kvslotstest.Must(t, change())
		for n := range 300 { // more than one block
			for _, subject := range []string{"s", "t"} {
				kvslotstest.Must(t, kvslotstest.Err(js.Publish(t.Context(), fmt.Sprintf("%s.%d", subject, n%7), make([]byte, maxRecord))))
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
	streams, err := srv.dir.Streams()
	kvslotstest.Must(t, err)
	for _, stream := range streams {
		dir := filepath.Join(streamsPath(srv), stream)
		links, err := listLinks(dir)
		kvslotstest.Must(t, err)
		linked := map[uint64]bool{}
		for _, l := range links {
			linked[l.inode] = true
		}
		blocks, err := filepath.Glob(filepath.Join(dir, msgsDir, "*.blk"))
		kvslotstest.Must(t, err)
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
