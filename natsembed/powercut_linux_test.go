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

	"golang.org/x/sys/unix"

	"github.com/kvslots/kvslots/kvslots/kvslotstest"
	"github.com/kvslots/kvslots/kvslots/logtest"
)

// realDisk is a file system in a file, on a loop device. A power cut of it loses data
// and names that were not flushed.
type realDisk struct{ image, mount string }

// imageSize is the size in bytes of a realDisk, most of which is never written. Each cut of
// TestSoakPowerCuts leaves 3.5 MB: in blocks of less than 2 MiB, nats-server makes use of the
// place of superseded entries at the earliest a minute after its start.
const imageSize = 2 << 30

// newRealDisk creates a realDisk with the given command, such as mkfs.ext4.
func newRealDisk(t *testing.T, mkfs ...string) *realDisk {
	t.Helper()
	if os.Getenv("KVSLOTS_SOAK") == "" {
		t.Skip("make soak")
	}
	if os.Geteuid() != 0 {
		t.Skip("only root can mount a file system: run make soak as root")
	}
	dir := t.TempDir()
	d := &realDisk{image: filepath.Join(dir, "image"), mount: filepath.Join(dir, "mount")}
	kvslotstest.Must(t, errors.Join(os.WriteFile(d.image, nil, 0o600), os.Truncate(d.image, imageSize), os.Mkdir(d.mount, 0o700)))
	if err := run(mkfs[0], append(mkfs[1:], d.image)...); err != nil {
		t.Skipf("no such file system here: %v", err)
	}
	if err := d.up(); err != nil {
		t.Skipf("it cannot be mounted from a loop device here: %v", err)
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

// cut discards everything that is not on the disk, by EXT4_IOC_SHUTDOWN without
// flushing the journal. XFS_IOC_GOINGDOWN is the same request.
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

// realCuts runs writers through n power cuts, and returns the first loss.
func realCuts(t *testing.T, d *realDisk, through durability, n int, before func(dir string) error) (taken int, loss error) {
	t.Helper()
	dir := filepath.Join(d.mount, "data")
	c := newCrowd()
	for taken = 1; taken <= n; taken++ {
		kvslotstest.Must(t, before(dir))
		if taken%20 == 0 {
			t.Logf("%d cuts, %d durable writes", taken, c.reported())
		}
		if loss = oneCut(t, d, dir, through, c); loss != nil {
			return taken, loss
		}
		kvslotstest.Must(t, errors.Join(d.down(), d.up()))
	}
	return n, nil
}

// oneCut starts a site on what the last cut left, checks it, and cuts the power again.
func oneCut(t *testing.T, d *realDisk, dir string, through durability, c *crowd) error {
	t.Helper()
	srv, err := Start(t.Context(), Config{Logger: logtest.Logger(), DataDir: dir, Sync: SyncGroup})
	if err != nil {
		return err
	}
	defer srv.Close()
	s, err := openSite(t.Context(), srv, through)
	if err != nil {
		return err
	}
	defer s.close()
	if err := c.facts.check(t.Context(), s); err != nil {
		return err
	}
	flushed(t, srv)
	ctx, stop := context.WithCancel(t.Context())
	defer stop()
	var running sync.WaitGroup
	running.Go(func() { c.run(ctx, s) })
	c.await(200 + rand.IntN(1500))
	// Later reports do not count: a flush during the shutdown of the file system may
	// succeed without effect, which does not happen at a real power cut.
	f := c.known()
	err = d.cut()
	stop()
	s.close()
	running.Wait()
	kvslotstest.Must(t, err)
	f.sent = c.known().sent
	c.facts = f
	return nil
}

// cuts is the number of power cuts, which KVSLOTS_CUTS overrides.
func cuts(n int) int {
	if number, err := strconv.Atoi(os.Getenv("KVSLOTS_CUTS")); err == nil {
		return number
	}
	return n
}

var fileSystems = map[string][]string{"ext4": {"mkfs.ext4", "-q", "-F"}, "xfs": {"mkfs.xfs", "-q", "-f"}}

// TestSoakPowerCuts cuts the power of a real file system under writers of the bucket:
// every write that was reported as durable survives, and new revisions are above all
// reported ones.
func TestSoakPowerCuts(t *testing.T) {
	for name, mkfs := range fileSystems {
		t.Run(name, func(t *testing.T) {
			began := time.Now()
			taken, loss := realCuts(t, newRealDisk(t, mkfs...), onFlush, cuts(200), func(string) error { return nil })
			if loss != nil {
				t.Errorf("cut %d: %v", taken, loss)
			}
			t.Logf("%d cuts in %v", taken, time.Since(began).Round(time.Second))
		})
	}
}

// If writers do not wait for the flush, the test finds losses. (Without the links it
// needs tens of cuts or more on a real disk; the model finds that loss sooner.)
func TestSoakPowerCutsFindLosses(t *testing.T) {
	for _, w := range weaknesses {
		t.Run(w.name, func(t *testing.T) {
			taken, loss := realCuts(t, newRealDisk(t, fileSystems["ext4"]...), w.through, cuts(100), w.before)
			if loss == nil && w.must {
				t.Error("no loss")
			}
			t.Logf("after %d cuts: %v", taken, loss)
		})
	}
}
