package natsembed

import (
	"errors"
	"os"
	"path/filepath"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/kvslots/kvslots/kvslots/kvslotstest"
	"github.com/kvslots/kvslots/kvslots/logtest"
)

// freeze makes all writes to the disk hang until thaw is called.
func (d *realDisk) freeze(t *testing.T) (thaw func()) {
	t.Helper()
	const freeze, unfreeze = 0xc0045877, 0xc0045878
	f, err := os.Open(d.mount)
	kvslotstest.Must(t, err)
	if _, _, errno := unix.Syscall(unix.SYS_IOCTL, f.Fd(), freeze, 0); errno != 0 {
		t.Fatal(errors.Join(errno, f.Close()))
	}
	return func() {
		if _, _, errno := unix.Syscall(unix.SYS_IOCTL, f.Fd(), unfreeze, 0); errno != 0 {
			t.Error(errno)
		}
		if err := f.Close(); err != nil {
			t.Error(err)
		}
	}
}

// TestSoakHangingDisk lets the disk hang under a write that nats-server has not
// acknowledged: the server fails within seconds.
func TestSoakHangingDisk(t *testing.T) {
	d := newRealDisk(t, fileSystems["ext4"]...)
	for _, sync := range []Sync{SyncGroup, SyncAlways, SyncInterval} {
		t.Run(string(sync), func(t *testing.T) {
			srv, err := Start(t.Context(), Config{Logger: logtest.Logger(), DataDir: filepath.Join(d.mount, string(sync)), Sync: sync})
			kvslotstest.Must(t, err)
			put(t, srv, "one")
			js := connect(t, srv)
			thaw := d.freeze(t)
			if _, err := js.PublishAsync("s", []byte("two")); err != nil {
				t.Error(err)
			}
			<-srv.Failed()
			t.Log(srv.Err())
			thaw()
			_ = srv.Close() // may still be waiting for the disk
		})
	}
}
