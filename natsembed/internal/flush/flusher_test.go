package flush

import (
	"os"
	"path/filepath"
	"sync/atomic"
	"syscall"
	"testing"
	"testing/synctest"
	"time"

	"go.uber.org/goleak"

	"github.com/kvslots/kvslots/kvslots/kvslotstest"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// nats-server may report the failed flush of a rewritten block after a pass that covers the
// block: the link of the old block is still there.
func TestLinkOutlastsTheReport(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		d := NewDir(t.TempDir(), "A", nil)
		stream := filepath.Join(d.streams, "S")
		block := filepath.Join(stream, msgsDir, "1.blk")
		kvslotstest.Must(t, os.MkdirAll(filepath.Dir(block), 0o700))
		write(t, filepath.Join(stream, "meta.inf"), `{"name":"S","storage":"file","num_replicas":1}`)
		write(t, block, "old")
		var report atomic.Pointer[error]
		f, err := d.Start(func() error {
			if reported := report.Load(); reported != nil {
				return *reported
			}
			return nil
		}, func(error) {}, nil)
		kvslotstest.Must(t, err)
		defer f.Close()
		write(t, block+".new", "new")
		kvslotstest.Must(t, os.Rename(block+".new", block))
		done := make(chan error, 1)
		f.Durable(func(err error) { done <- err })
		kvslotstest.Must(t, <-done)
		synctest.Wait()
		reported := error(syscall.EIO)
		report.Store(&reported)
		time.Sleep(time.Minute)
		links, err := listLinks(stream)
		if err != nil || len(links) != 2 {
			t.Errorf("links %v, %v", links, err)
		}
	})
}
