package natsembed

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"sync"
	"testing"
	"time"

	"github.com/kvslots/kvslots/kvslots/kvslotstest"
	"github.com/kvslots/kvslots/kvslots/logtest"
	"github.com/kvslots/kvslots/kvslots/natsstore"
)

// TestSoakCutsAfterARestore cuts the power of a real file system as soon as a restore has
// returned, while another program flushes a file of its own, and with it the journal: what
// was restored is there.
func TestSoakCutsAfterARestore(t *testing.T) {
	for name, mkfs := range fileSystems {
		t.Run(name, func(t *testing.T) {
			d := newRealDisk(t, mkfs...)
			backup := preparedBackup(t)
			n := cuts(12)
			for i := range n {
				if err := cutAfterRestore(t, d, filepath.Join(d.mount, fmt.Sprint(i)), backup, true); err != nil {
					t.Errorf("cut %d: %v", i, err)
				}
			}
			t.Logf("%d cuts", n)
		})
	}
}

// The test above can fail: a restore that flushes nothing loses what it has restored.
func TestSoakCutsAfterARestoreFindLosses(t *testing.T) {
	d := newRealDisk(t, fileSystems["ext4"]...)
	backup, lost := preparedBackup(t), 0
	n := cuts(12)
	for i := range n {
		if err := cutAfterRestore(t, d, filepath.Join(d.mount, fmt.Sprint(i)), backup, false); err != nil {
			t.Log(err)
			lost++
		}
	}
	if lost == 0 {
		t.Error("no loss")
	}
	t.Logf("%d losses in %d cuts", lost, n)
}

// cutAfterRestore restores a backup over an empty bucket, cuts the power, and returns what a
// server that starts then lacks.
func cutAfterRestore(t *testing.T, d *realDisk, dir string, backup []byte, flush bool) error {
	t.Helper()
	srv, err := Start(t.Context(), Config{Logger: logtest.Logger(), DataDir: dir, Sync: SyncGroup, Local: true})
	if err != nil {
		return err
	}
	defer srv.Close()
	s, err := openSite(t.Context(), srv, onFlush)
	if err != nil {
		return err
	}
	s.close()
	flushed(t, srv)
	nc, err := Dial(dir)
	if err != nil {
		return err
	}
	defer nc.Close()
	stop, err := flushOften(filepath.Join(d.mount, "other"))
	if err != nil {
		return err
	}
	options := natsstore.RestoreOptions{Replace: true, Unused: true}
	if flush {
		options.Flush = func(context.Context) error { return srv.Flush() }
	}
	_, err = natsstore.Restore(t.Context(), nc, bytes.NewReader(backup), options)
	cutErr := d.cut()
	stop()
	_ = srv.Close() // without its disk
	kvslotstest.Must(t, errors.Join(err, cutErr, d.down(), d.up()))
	if err := startFrom(t, dir, false, nil); err != nil {
		return err
	}
	return startFrom(t, dir, true, backup)
}

// flushOften writes and flushes a file every 2 ms until stop is called.
func flushOften(path string) (stop func(), err error) {
	f, err := os.Create(path)
	if err != nil {
		return nil, err
	}
	ctx, cancel := context.WithCancel(context.Background())
	var running sync.WaitGroup
	running.Go(func() {
		for ticker := time.NewTicker(2 * time.Millisecond); ctx.Err() == nil; <-ticker.C {
			_, _ = f.Write([]byte("x"))
			_ = f.Sync()
		}
	})
	return func() {
		cancel()
		running.Wait()
		_ = f.Close()
	}, nil
}
