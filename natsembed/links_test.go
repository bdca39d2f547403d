//go:build unix

package natsembed

import (
	"fmt"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/kvslots/kvslots/kvslots/kvslotstest"
)

// Every flushed block has a link, and the links of removed blocks are dropped.
func TestLinksFollowTheBlocks(t *testing.T) {
	t.Parallel() // waits most of the time
	srv := startServer(t, Config{DataDir: t.TempDir(), Sync: SyncGroup})
	js := likeTheBucket(t, srv)
	for round := range 4 {
		for i := range 150 {
			kvslotstest.Must(t, kvslotstest.Err(js.Publish(t.Context(), fmt.Sprintf("s.%d", i), make([]byte, maxRecord))))
		}
		flushed(t, srv)
		unlinked, superfluous := compareLinks(t, srv)
		if len(unlinked) > 0 {
			t.Errorf("round %d: no links of %v", round, unlinked)
		}
		for deadline := time.Now().Add(time.Minute); len(superfluous) > 0; _, superfluous = compareLinks(t, srv) {
			if time.Now().After(deadline) {
				t.Fatalf("round %d: links %v of no block", round, superfluous)
			}
			pauseTest(t)
		}
	}
}

// compareLinks returns the blocks of stream S without links, and the links without blocks.
func compareLinks(t *testing.T, srv *Server) (unlinked map[uint64]string, superfluous []link) {
	t.Helper()
	unlinked = map[uint64]string{}
	msgs := filepath.Join(streamPath(srv), msgsDir)
	names, err := listNames(msgs)
	kvslotstest.Must(t, err)
	for _, name := range names {
		if isBlock(name) {
			info, err := os.Lstat(filepath.Join(msgs, name))
			kvslotstest.Must(t, err)
			unlinked[inode(info)] = name
		}
	}
	links, err := listLinks(streamPath(srv))
	kvslotstest.Must(t, err)
	for _, l := range links {
		if unlinked[l.inode] != l.block() {
			superfluous = append(superfluous, l)
		}
		delete(unlinked, l.inode)
	}
	return unlinked, superfluous
}

// nats-server removes a last block without records when it starts. The link to it is dropped
// at once: a server that is killed soon after each start must not keep what it has removed.
func TestStartDropsLinks(t *testing.T) {
	dir := t.TempDir()
	srv := startServer(t, Config{DataDir: dir, Sync: SyncGroup})
	put(t, srv, "one")
	stream := streamPath(srv)
	kvslotstest.Must(t, srv.Close())
	kvslotstest.Must(t, os.Remove(filepath.Join(dir, cleanFile)))
	write(t, filepath.Join(stream, msgsDir, "2.blk"), "")
	startServer(t, Config{DataDir: dir, Sync: SyncGroup})
	links, err := listLinks(stream)
	if err != nil || len(links) != 1 || links[0].block() != "1.blk" {
		t.Errorf("links %v, %v", links, err)
	}
}

func write(t *testing.T, path, content string) {
	t.Helper()
	kvslotstest.Must(t, os.WriteFile(path, []byte(content), 0o600))
}
