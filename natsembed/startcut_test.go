//go:build unix

package natsembed

import (
	"math/rand/v2"
	"os"
	"path/filepath"
	"strconv"
	"sync/atomic"
	"testing"

	"github.com/kvslots/kvslots/kvslots/kvslotstest"
)

// killed returns a copy of the disk as the kill of the process leaves it: nothing is
// lost, and what was not flushed may still be lost in a later cut.
func (d *disk) killed(t *testing.T) (next *disk, dir string) {
	t.Helper()
	next, dir = newDisk(t), t.TempDir()
	next.forgets = d.forgets
	next.stream = d.copyMeta(t, dir)
	copies := map[uint64]uint64{} // inodes
	for _, part := range []string{msgsDir, keepDir} {
		for name, number := range d.present(t, part) {
			number = d.copyFile(t, next, number, copies)
			kvslotstest.Must(t, os.Link(next.shadowOf(number), filepath.Join(next.stream, part, name)))
		}
		next.names[part] = map[string]uint64{}
		for name, number := range d.names[part] {
			next.names[part][name] = d.copyFile(t, next, number, copies)
		}
	}
	return next, dir
}

// copyFile copies a file to another disk, if that has not been done.
func (d *disk) copyFile(t *testing.T, to *disk, number uint64, copies map[uint64]uint64) uint64 {
	t.Helper()
	if number, done := copies[number]; done {
		return number
	}
	data, err := os.ReadFile(d.shadowOf(number))
	kvslotstest.Must(t, err)
	temporary := filepath.Join(to.shadow, "copy")
	write(t, temporary, string(data))
	info, err := os.Lstat(temporary)
	if err == nil {
		err = os.Rename(temporary, to.shadowOf(inode(info)))
	}
	kvslotstest.Must(t, err)
	copies[number] = inode(info)
	to.sizes[inode(info)] = d.sizes[number]
	return inode(info)
}

func (d *disk) shadowOf(number uint64) string {
	return filepath.Join(d.shadow, strconv.FormatUint(number, 10))
}

// mostFlushes is about how many flushes a start makes.
const mostFlushes = 60

// killAndCut kills the process. Then it cuts the power within the next start or right
// after it, or kills the process again, and so on.
func killAndCut(t *testing.T, d *disk, random *rand.Rand) func() string {
	d, dir := d.killed(t)
	return func() string { return d.cutWithinStart(t, dir, random) }
}

func (d *disk) cutWithinStart(t *testing.T, dir string, random *rand.Rand) (left string) {
	t.Helper()
	var next *disk
	outage := func() {
		d.mu.Lock()
		defer d.mu.Unlock()
		switch {
		case left != "":
		case random.IntN(2) == 0:
			left = d.cut(t, random)
		default:
			next, left = d.killed(t)
		}
	}
	if random.IntN(2) == 0 {
		var begun atomic.Int64
		at := 1 + random.Int64N(mostFlushes)
		d.begins = func() {
			if begun.Add(1) == at {
				outage()
			}
		}
	}
	srv, err := start(t.Context(), Config{DataDir: dir, Sync: SyncGroup}, d.sync)
	kvslotstest.Must(t, err)
	defer srv.Close()
	outage()
	if next != nil {
		return next.cutWithinStart(t, left, random)
	}
	return left
}

// After a kill, nats-server removes and rewrites blocks while it recovers a stream. A
// power cut within the start, after any number of kills within starts, loses nothing.
func TestModelledCutsWithinAStart(t *testing.T) {
	t.Parallel() // waits most of the time
	cuts := 3
	if os.Getenv("KVSLOTS_SOAK") != "" {
		cuts = 200
	}
	modelCuts(t, onFlush, cuts, killAndCut, func(t *testing.T, dir string, f *facts) bool {
		if err := recovered(t, dir, f); err != nil {
			t.Errorf("%v", err)
		}
		return !t.Failed()
	})
}

// The test above can fail: if the start flushes nothing, it finds losses.
func TestModelledCutsWithinAStartFindLosses(t *testing.T) {
	t.Parallel() // waits most of the time
	if os.Getenv("KVSLOTS_SOAK") == "" {
		t.Skip("KVSLOTS_SOAK is not set; a loss may take a minute")
	}
	const cuts = 200 // far more than a loss needs
	var loss error
	taken := 0
	modelCuts(t, onFlush, cuts, func(t *testing.T, d *disk, random *rand.Rand) func() string {
		d, dir := d.killed(t)
		d.forgets = true
		return func() string { return d.cutWithinStart(t, dir, random) }
	}, func(t *testing.T, dir string, f *facts) bool {
		taken++
		loss = recovered(t, dir, f)
		return loss == nil
	})
	if loss == nil {
		t.Errorf("no loss in %d cuts", cuts)
	}
	t.Logf("after %d cuts: %v", taken, loss)
}
