package gateway_test

import (
	"fmt"
	"runtime"
	"runtime/metrics"
	"testing"
	"time"

	"github.com/kvslots/kvslots/gateway"
	"github.com/kvslots/kvslots/gateway/internal/gatewaytest"
	"github.com/kvslots/kvslots/kvslots"
	"github.com/kvslots/kvslots/kvslots/kvslotstest"
	"github.com/kvslots/kvslots/kvslots/wire"
	"github.com/kvslots/kvslots/natsembed"
)

// A waiting request takes about 38 KiB, of which net/http's buffers take 10, and the stacks of two goroutines 18. With the
// client's connection and the embedded server's part it is 43 here: the larger stack would add 16 if it doubled.
func TestMemoryOfAWaiter(t *testing.T) {
	if testing.Short() {
		t.Skip("the race detector makes stack frames larger")
	}
	const pool, waiters, most = "/l/9f1c2e7a-5b3d-4c8e-a1f0-6d2b9c4e7a01", 300, 50 << 10
	srv := gatewaytest.StartServer(t, natsembed.Config{})
	store, _ := gatewaytest.OpenStore(t, srv.Connect, kvslots.Config{})
	g := gatewaytest.Open(t, func(cfg *gateway.Config) {
		cfg.Dialects = []gateway.Dialect{
			gateway.NewLibrary(store, cfg.Lending, cfg.Logger),
			gateway.NewDflockd(store, gateway.DflockdConfig{Lending: cfg.Lending, Turns: gateway.NewTurns(), Logger: cfg.Logger}),
		}
	})
	if code, body, _ := g.Do(t, "PUT", pool, `{"count":1}`); code != 200 {
		t.Fatal(code, body)
	}
	wantWaiting := 0
	for path, body := range map[string]string{
		pool + "/borrow": `{"ttl":60,"wait":60}`,
		"/v1/locks/x":    `{"lease_ttl_s":60,"acquire_timeout_s":60}`,
	} {
		before := inUse()
		for range waiters + 1 { // the first one does not wait
			session, _, err := store.CreateSession(t.Context(), kvslots.WithIdle(time.Hour))
			kvslotstest.Must(t, err)
			if _, err := fmt.Fprintf(g.Dial(t), "POST %s HTTP/1.1\r\nHost: localhost\r\n%s: %s\r\nContent-Length: %d\r\n\r\n%s",
				path, wire.SessionHeader, session, len(body), body); err != nil {
				t.Fatal(err)
			}
		}
		wantWaiting += waiters
		gatewaytest.Eventually(t, "the requests wait in line", func() bool { return waiting(t, store) == wantWaiting })
		got := (inUse() - before) / waiters
		if t.Logf("POST %s: a waiting request takes %d bytes", path, got); got > most {
			t.Errorf("POST %s: a waiting request takes %d bytes, want at most %d", path, got, most)
		}
	}
}

// inUse returns the bytes of all stacks, and of all that the heap has after a collection.
func inUse() int {
	runtime.GC()
	samples := []metrics.Sample{{Name: "/memory/classes/heap/stacks:bytes"}, {Name: "/memory/classes/heap/objects:bytes"}}
	metrics.Read(samples)
	return int(samples[0].Value.Uint64() + samples[1].Value.Uint64())
}

// waiting returns the number of borrowers in the lines of all pools, locks and semaphores.
func waiting(t *testing.T, store *kvslots.Store) (n int) {
	t.Helper()
	stats, err := store.Stats(t.Context())
	kvslotstest.Must(t, err)
	for _, pool := range stats.Pools {
		n += pool.Waiting
	}
	for _, lock := range stats.Names {
		n += len(lock.Waiters)
	}
	return n
}
