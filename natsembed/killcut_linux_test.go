package natsembed

import (
	"bufio"
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/kvslots/kvslots/kvslots/kvslotstest"
	"github.com/kvslots/kvslots/kvslots/logtest"
)

// killVictim runs a server until it has written a line that begins so, and kills it.
func killVictim(t *testing.T, dir, line string) {
	t.Helper()
	c := exec.CommandContext(t.Context(), os.Args[0])
	c.Env = append(os.Environ(), victimDir+"="+dir)
	out, err := c.StdoutPipe()
	if err == nil {
		err = c.Start()
	}
	kvslotstest.Must(t, err)
	lines := bufio.NewScanner(out)
	for lines.Scan() && !strings.HasPrefix(lines.Text(), line) {
	}
	if text := lines.Text(); text != startingLine && text != readyLine+" <nil>" {
		t.Fatalf("the server says %q", text)
	}
	_ = c.Process.Kill()
	_ = c.Wait() // returns that it was killed
}

// TestSoakCutsAfterAKill cuts the power of a real file system right after a start that
// follows kills of the server, also of one that starts: every flushed record survives.
func TestSoakCutsAfterAKill(t *testing.T) {
	for name, mkfs := range fileSystems {
		t.Run(name, func(t *testing.T) {
			d := newRealDisk(t, mkfs...)
			n := cuts(20)
			for i := range n {
				dir := filepath.Join(d.mount, fmt.Sprint(i))
				killVictim(t, dir, readyLine)
				for range rand.IntN(3) {
					killVictim(t, dir, []string{startingLine, readyLine}[rand.IntN(2)])
				}
				if got := leftAfterCut(t, d, dir); got != victimKeys {
					t.Fatalf("cut %d: %d of %d records are left", i, got, victimKeys)
				}
				kvslotstest.Must(t, os.RemoveAll(dir))
			}
			t.Logf("%d cuts", n)
		})
	}
}

// leftAfterCut starts a server, cuts the power, and returns how many records are left.
func leftAfterCut(t *testing.T, d *realDisk, dir string) uint64 {
	t.Helper()
	srv, err := Start(t.Context(), Config{Logger: logtest.Logger(), DataDir: dir, Sync: SyncGroup})
	kvslotstest.Must(t, err)
	err = d.cut()
	_ = srv.Close() // without its disk
	kvslotstest.Must(t, errors.Join(err, d.down(), d.up()))
	again := startServer(t, Config{DataDir: dir, Sync: SyncGroup})
	left := messages(t, again)
	kvslotstest.Must(t, again.Close())
	return left
}
