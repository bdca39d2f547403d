package natsembed

import (
	"bytes"
	"errors"
	"os"
	"path/filepath"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/nats-io/nats.go/jetstream"
)

// A server whose disk was full restarts once there is space, with all acknowledged
// writes.
func TestFullDisk(t *testing.T) {
	if os.Geteuid() != 0 {
		t.Skip("only root can mount a small file system")
	}
	mount := t.TempDir()
	if err := unix.Mount("tmpfs", mount, "tmpfs", 0, "size=16m"); err != nil {
		t.Skipf("no tmpfs can be mounted here: %v", err)
	}
	t.Cleanup(func() { _ = unix.Unmount(mount, unix.MNT_DETACH) })
	srv := startServer(t, Config{DataDir: filepath.Join(mount, "data"), Sync: SyncGroup})
	put(t, srv, "one")
	flushed(t, srv)
	js := connect(t, srv)
	balloon := filepath.Join(mount, "balloon")
	if err := os.WriteFile(balloon, bytes.Repeat([]byte("x"), 32<<20), 0o600); !errors.Is(err, unix.ENOSPC) {
		t.Fatalf("the disk is not full: %v", err)
	}
	acknowledged := 1
	for {
		_, err := js.Publish(t.Context(), "s", make([]byte, 10_000), jetstream.WithRetryAttempts(0))
		if err != nil {
			break
		}
		acknowledged++
	}
	if err := os.Remove(balloon); err != nil {
		t.Fatal(err)
	}
	for deadline := time.Now().Add(time.Minute); ; {
		_, err := js.Publish(t.Context(), "s", []byte("again"))
		if err == nil {
			break
		}
		if time.Now().After(deadline) {
			t.Fatal(err)
		}
	}
	flushed(t, srv)
	if got := messages(t, srv); got < uint64(acknowledged)+1 {
		t.Errorf("%d messages are there, %d were acknowledged", got, acknowledged+1)
	}
}
