package natsembed

import (
	"errors"
	"os"
	"sync/atomic"
	"testing"
	"time"

	"github.com/kvslots/kvslots/kvslots/kvslotstest"
	"github.com/kvslots/kvslots/natsembed/internal/flush"
)

// A server fails when a flush hangs, or nats-server does not answer. All callers that
// wait for the flush are called back.
func TestServerFailsWhenItHangs(t *testing.T) {
	for name, check := range map[string]func(srv *Server, resume chan struct{}) func() error{
		"flush": func(srv *Server, _ chan struct{}) func() error { return srv.check },
		"server": func(_ *Server, resume chan struct{}) func() error {
			return func() error { <-resume; return nil }
		},
	} {
		t.Run(name, func(t *testing.T) {
			var hang atomic.Bool
			hangs, resume := make(chan struct{}, 1), make(chan struct{})
			srv, err := start(t.Context(), Config{DataDir: t.TempDir(), Sync: SyncGroup}, func(*os.File) error {
				if hang.Load() {
					select {
					case hangs <- struct{}{}:
					default:
					}
					<-resume
				}
				return nil
			})
			kvslotstest.Must(t, err)
			put(t, srv, "one")
			flushed(t, srv)
			hang.Store(true)
			kvslotstest.Must(t, kvslotstest.Err(connect(t, srv).Publish(t.Context(), "s", nil)))
			done := make(chan error, 2)
			srv.Flusher().Durable(func(err error) { done <- err })
			<-hangs
			srv.Flusher().Durable(func(err error) { done <- err }) // for the next pass
			ticks := make(chan time.Time)
			srv.tasks.Go(func() { srv.keepHealthy(ticks, check(srv, resume)) })
			for range maxUnanswered {
				select {
				case ticks <- time.Time{}:
				case <-srv.Failed():
				}
			}
			<-srv.Failed()
			if !errors.Is(srv.Err(), errStuck) {
				t.Errorf("error %v", srv.Err())
			}
			for range 2 {
				if err := <-done; !errors.Is(err, flush.ErrNotDurable) || !errors.Is(err, errStuck) {
					t.Errorf("a caller got %v", err)
				}
			}
			close(resume)
			if err := srv.Close(); err != nil {
				t.Error(err)
			}
		})
	}
}
