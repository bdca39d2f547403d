//go:build unix

package natsembed

import (
	"context"
	"errors"
	"io/fs"
	"os"
	"strconv"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/kvslots/kvslots/natsembed/internal/flush"
)

// report makes nats-server report a write error, as its file store does.
func report(srv *Server, op string, errno syscall.Errno) {
	srv.nats().Errorf("Filestore [S] Critical write error: %v", &fs.PathError{Op: op, Path: "/data/1.blk", Err: errno})
}

// After nats-server has reported a write error, no write is reported as durable. If the
// error may pass, that changes when nats-server has been restarted.
func TestReportedWriteError(t *testing.T) {
	cases := []struct {
		name   string
		op     string
		errno  syscall.Errno
		passes bool
	}{
		{"failed flush", "sync", syscall.EIO, false},
		{"no space for a flush", "sync", syscall.ENOSPC, false},
		{"failed write", "write", syscall.EIO, false},
		{"no space for a write", "write", syscall.ENOSPC, true},
	}
	for _, c := range cases {
		t.Run(c.name, func(t *testing.T) {
			srv := startServer(t, Config{DataDir: t.TempDir(), Sync: SyncGroup})
			put(t, srv, "one")
			flushed(t, srv)
			before := srv.nats()
			report(srv, c.op, c.errno)
			done := make(chan error, 1)
			durable := func() error {
				srv.Flusher().Durable(func(err error) { done <- err })
				return <-done
			}
			if err := durable(); srv.nats() == before && (!errors.Is(err, flush.ErrNotDurable) || !errors.Is(err, c.errno)) {
				t.Fatalf("error %v", err)
			}
			if !c.passes {
				<-srv.Failed()
				if err := srv.Err(); !errors.Is(err, c.errno) {
					t.Errorf("failed with %v", err)
				}
				return
			}
			for deadline := time.Now().Add(time.Minute); durable() != nil; pauseTest(t) {
				if time.Now().After(deadline) {
					t.Fatal("nats-server is not restarted")
				}
			}
		})
	}
}

// nats-server flushes a block that it has rewritten, before the Flusher opens the block, and
// the flush fails. The Flusher's own flush succeeds, and later nats-server reports the error.
// Then the power is cut: everything that was reported as durable survives.
func TestModelledDiskErrors(t *testing.T) {
	t.Parallel() // waits most of the time
	failures := 2
	if os.Getenv("KVSLOTS_SOAK") != "" {
		failures = 50
	}
	for i := range failures {
		t.Run(strconv.Itoa(i+1), testModelledDiskError)
	}
}

func testModelledDiskError(t *testing.T) {
	random, d, srv, s := startOnModel(t, onFlush)
	defer s.close()
	d.mu.Lock()
	d.stream = bucketPath(srv)
	reported := make(chan struct{})
	d.spoils = func() {
		// The pass that follows the one under way calls back before it drops links.
		srv.Flusher().Durable(func(error) {
			report(srv, "sync", syscall.EIO)
			close(reported)
		})
	}
	d.mu.Unlock()
	c := newCrowd()
	ctx, stop := context.WithCancel(t.Context())
	var running sync.WaitGroup
	running.Go(func() { c.run(ctx, s) })
	<-reported
	for n := 0; srv.Err() == nil && n < 1000; n++ {
		select {
		case <-c.more:
		case <-srv.Failed():
		}
	}
	if srv.Err() == nil {
		t.Error("writes are durable after the report")
	}
	stop()
	running.Wait()
	f := c.known()
	var left string
	d.atCut(func() { left = d.cut(t, random) })
	if err := recovered(t, left, &f); err != nil {
		t.Error(err)
	}
}
