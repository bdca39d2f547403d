package bucket

import (
	"context"
	"testing"

	"github.com/nats-io/nats.go"

	"github.com/kvslots/kvslots/kvslots/internal/entry"
	"github.com/kvslots/kvslots/kvslots/internal/peer"
	"github.com/kvslots/kvslots/kvslots/kvslotstest"
	"github.com/kvslots/kvslots/kvslots/logtest"
)

// While a watch could not be created, direct gets only began after 5 s. Here the watch
// delivers nothing, and another peer's writes still reach the view.
func TestFault21DirectGets(t *testing.T) {
	t.Parallel()
	cluster := kvslotstest.StartCluster(t)
	open := func(hook Hook) *Bucket {
		b, err := Open(t.Context(), cluster.Connect(), Config{Replicas: 3, Logger: logtest.Logger(), Hook: hook})
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { b.Close(context.Background()) })
		return b
	}
	held := make(chan struct{}) // closed at the end: until then the watch delivers nothing more
	loaded := make(chan struct{})
	behind := open(func(m *nats.Msg, next func(*nats.Msg)) {
		select {
		case <-loaded:
			<-held
		default:
		}
		next(m)
	})
	t.Cleanup(func() { close(held) })
	other := open(nil)
	close(loaded)
	pool := entry.HashOf("pool", t.Name())
	if _, err := other.Do(t.Context(), peer.Register{Pool: pool, Count: 3}); err != nil {
		t.Fatal(err)
	}
	behind.mu.Lock()
	o := order{Watch: behind.watch.Watch, ctx: t.Context(), cancel: func() {}}
	o.From = behind.progress.reached
	behind.mu.Unlock()
	meanwhile, stop := context.WithCancel(t.Context())
	done := make(chan struct{})
	go func() {
		defer close(done)
		behind.catchUp(meanwhile, o)
	}()
	reached := func() uint64 {
		other.mu.Lock()
		defer other.mu.Unlock()
		return other.progress.reached
	}()
	kvslotstest.Eventually(t, "the view has reached the other's", func() bool {
		behind.mu.Lock()
		defer behind.mu.Unlock()
		return behind.progress.reached >= reached
	})
	stop()
	<-done
}
