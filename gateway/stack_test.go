package gateway_test

import (
	"context"
	"fmt"
	"runtime"
	"runtime/debug"
	"runtime/metrics"
	"testing"
	"time"

	"github.com/google/uuid"

	"github.com/kvslots/kvslots/gateway"
	"github.com/kvslots/kvslots/gateway/internal/gatewaytest"
	"github.com/kvslots/kvslots/kvslots"
	"github.com/kvslots/kvslots/kvslots/kvslotstest"
	"github.com/kvslots/kvslots/kvslots/wire"
	"github.com/kvslots/kvslots/natsembed"
)

// The stacks of a waiting request are one of 8 KiB, of the handler's goroutine, and one of
// 2 KiB, of the goroutine that notices when the client hangs up. A stack that is too small
// doubles: with 16 KiB, 10,000 waiters would take 80 MiB more. The requests of this test use
// 512 bytes more than others, for a margin.
func TestWaitingStack(t *testing.T) {
	if testing.Short() {
		t.Skip("the race detector makes stack frames larger")
	}
	const pool, waiters, want = "/l/9f1c2e7a-5b3d-4c8e-a1f0-6d2b9c4e7a01", 300, 8<<10 + 2<<10
	srv := gatewaytest.StartServer(t, natsembed.Config{})
	store, _ := gatewaytest.OpenStore(t, srv.Connect, kvslots.Config{})
	deep := deepStore{store}
	g := gatewaytest.Open(t, func(cfg *gateway.Config) {
		cfg.Dialects = []gateway.Dialect{
			gateway.NewLibrary(deep, cfg.Lending, cfg.Logger),
			gateway.NewDflockd(deep, gateway.DflockdConfig{Lending: cfg.Lending, Turns: gateway.NewTurns(), Logger: cfg.Logger}),
		}
	})
	if code, body, _ := g.Do(t, "PUT", pool, `{"count":1}`); code != 200 {
		t.Fatal(code, body)
	}
	defer debug.SetGCPercent(debug.SetGCPercent(-1)) // a collection may halve a stack
	wantWaiting := 0
	for path, body := range map[string]string{
		pool + "/borrow": `{"ttl":60,"wait":60}`,
		"/v1/locks/x":    `{"lease_ttl_s":60,"acquire_timeout_s":60}`,
	} {
		before := stackBytes()
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
		if got := (stackBytes() - before) / waiters; got >= want+want/4 {
			t.Errorf("POST %s: the stacks of a waiting request take %d bytes, want %d. Which stack frames between net/http and"+
				" the wait are large? They contain the structs that a function gets, keeps and returns by value, and those of a"+
				" middleware stay during the wait. Compile with -gcflags=-S for the sizes.", path, got, want)
		}
	}
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

// stackBytes returns the memory of all stacks.
func stackBytes() int {
	sample := []metrics.Sample{{Name: "/memory/classes/heap/stacks:bytes"}}
	metrics.Read(sample)
	return int(sample[0].Value.Uint64())
}

// deepStore is a Store with 512 bytes more on the stack.
type deepStore struct{ *kvslots.Store }

func (s deepStore) Borrow(ctx context.Context, pool uuid.UUID, opts ...kvslots.Option) (*kvslots.Lease, error) {
	var margin [512]byte
	defer runtime.KeepAlive(&margin)
	return s.Store.Borrow(ctx, pool, opts...)
}

func (s deepStore) Acquire(ctx context.Context, session string, r kvslots.Resource, opts ...kvslots.Option) (kvslots.Grant, error) {
	var margin [512]byte
	defer runtime.KeepAlive(&margin)
	return s.Store.Acquire(ctx, session, r, opts...)
}
