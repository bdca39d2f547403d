package natsembed

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"sync"
	"testing"
	"time"
	"unsafe"

	"github.com/nats-io/nats-server/v2/server"
	"golang.org/x/sys/unix"
)

// realDisk is a file system in a file, on a loop device, from which the power can be
// cut: what was not flushed is gone, names included.
type realDisk struct{ image, mount string }

func newRealDisk(t *testing.T) *realDisk {
	t.Helper()
	if os.Getenv("KVSLOTS_SOAK") == "" {
		t.Skip("make soak")
	}
	if os.Geteuid() != 0 {
		t.Skip("only root can mount a file system")
	}
	dir := t.TempDir()
	d := &realDisk{image: filepath.Join(dir, "image"), mount: filepath.Join(dir, "mount")}
	if err := errors.Join(os.WriteFile(d.image, nil, 0o600), os.Truncate(d.image, 256<<20), os.Mkdir(d.mount, 0o700)); err != nil {
		t.Fatal(err)
	}
	if out, err := exec.Command("mkfs.ext4", "-q", "-F", d.image).CombinedOutput(); err != nil {
		t.Skipf("no ext4 here: %v: %s", err, out)
	}
	if err := d.up(); err != nil {
		t.Skipf("no loop device here: %v", err)
	}
	t.Cleanup(func() { _ = d.down() })
	return d
}

func (d *realDisk) up() error   { return run("mount", "-o", "loop", d.image, d.mount) }
func (d *realDisk) down() error { return run("umount", d.mount) }

func run(name string, args ...string) error {
	out, err := exec.Command(name, args...).CombinedOutput()
	if err != nil {
		return fmt.Errorf("%s: %w: %s", name, err, out)
	}
	return nil
}

// cut drops everything that is not on the disk: EXT4_IOC_SHUTDOWN without flushing
// the journal.
func (d *realDisk) cut() error {
	const shutdown, noFlush = 0x8004587d, 2
	f, err := os.Open(d.mount)
	if err != nil {
		return err
	}
	how := uint32(noFlush)
	_, _, errno := unix.Syscall(unix.SYS_IOCTL, f.Fd(), shutdown, uintptr(unsafe.Pointer(&how)))
	if errno != 0 {
		return errors.Join(errno, f.Close())
	}
	return f.Close()
}

// realCuts runs clients through n power cuts, and returns the first loss.
func realCuts(t *testing.T, told func(*Server, func(error)), n int, before func(dir string) error) (taken int, loss error) {
	d := newRealDisk(t)
	dir := filepath.Join(d.mount, "data")
	var f facts
	for taken = 1; taken <= n; taken++ {
		if err := before(dir); err != nil {
			t.Fatal(err)
		}
		if taken%20 == 0 {
			t.Logf("%d cuts", taken)
		}
		if f, loss = oneCut(t, d, dir, told, f); loss != nil {
			return taken, loss
		}
		if err := errors.Join(d.down(), d.up()); err != nil {
			t.Fatal(err)
		}
	}
	return n, nil
}

// oneCut starts a server on what the last cut has left, checks that, and cuts again.
func oneCut(t *testing.T, d *realDisk, dir string, told func(*Server, func(error)), before facts) (facts, error) {
	t.Helper()
	srv, err := Start(t.Context(), Config{DataDir: dir, Sync: SyncGroup})
	if err != nil {
		return before, err
	}
	defer srv.Close()
	if before.highest > 0 {
		if err := before.check(t, srv); err != nil {
			return before, err
		}
	} else {
		likeTheBucket(t, srv)
	}
	flushed(t, srv)
	l := newLoad(told)
	l.facts = before
	ctx, stop := context.WithCancel(t.Context())
	defer stop()
	var running sync.WaitGroup
	running.Go(func() { l.run(ctx, t, srv) })
	l.await(200 + rand.IntN(1500))
	// What is told after this counts for nothing: a flush that is under way when the
	// file system is shut down may succeed without effect, which no real cut does.
	known := l.known()
	err = d.cut()
	stop()
	running.Wait()
	if err != nil {
		t.Fatal(err)
	}
	known.sent = l.known().sent
	return known, nil
}

// cuts is how many there are, unless KVSLOTS_CUTS says another number.
func cuts(n int) int {
	if number, err := strconv.Atoi(os.Getenv("KVSLOTS_CUTS")); err == nil {
		return number
	}
	return n
}

// TestSoakPowerCuts cuts the power of a real file system. Whatever was told is there
// afterwards, and sequence numbers go on above it.
func TestSoakPowerCuts(t *testing.T) {
	began := time.Now()
	taken, loss := realCuts(t, throughGate, cuts(200), func(string) error { return nil })
	if loss != nil {
		t.Errorf("cut %d: %v", taken, loss)
	}
	t.Logf("%d cuts in %v", taken, time.Since(began).Round(time.Second))
}

// Without the gate it finds losses. (Without the links it takes tens of cuts or more
// on a real disk; the model finds that sooner.)
func TestSoakPowerCutsFindLosses(t *testing.T) {
	for name, c := range map[string]struct {
		told   func(*Server, func(error))
		before func(string) error
		must   bool
	}{
		"without the gate": {withoutGate, func(string) error { return nil }, true},
		"without links": {throughGate, func(dir string) error {
			return os.RemoveAll(filepath.Join(dir, server.JetStreamStoreDir, bucketAccount, streamsDir, "S", keepDir))
		}, false},
	} {
		t.Run(name, func(t *testing.T) {
			taken, loss := realCuts(t, c.told, 100, c.before)
			if loss == nil && c.must {
				t.Error("no loss")
			}
			t.Logf("after %d cuts: %v", taken, loss)
		})
	}
}
