package bench

import (
	"context"
	"fmt"
	"testing"
	"time"

	"github.com/google/uuid"

	"github.com/kvslots/kvslots/kvslots"
	"github.com/kvslots/kvslots/natsembed"
)

// BenchmarkDurable borrows and returns through the library with each way to flush,
// the ways taking turns, and reports what part of SyncAlways each reaches. Of the
// raw stream's cycles group knows nothing: they are acknowledged before they are
// flushed.
func BenchmarkDurable(b *testing.B) {
	modes := []natsembed.Sync{natsembed.SyncAlways, natsembed.SyncGroup, natsembed.SyncInterval}
	var stores []Library
	for _, mode := range modes {
		stores = append(stores, openLibrary(b, mode))
	}
	for _, clients := range []int{1, 8, 64, 512} {
		b.Run(fmt.Sprintf("clients=%d", clients), func(b *testing.B) {
			total := make([]Result, len(modes))
			for range b.N {
				for i, store := range stores {
					r := Run(b.Context(), store, clients, time.Second)
					if r.Errors > 0 {
						b.Fatalf("%s: %d errors", modes[i], r.Errors)
					}
					total[i].Cycles += r.Cycles
					total[i].Elapsed += r.Elapsed
				}
			}
			b.ReportMetric(0, "ns/op") // a round's length says nothing
			for i, mode := range modes {
				b.ReportMetric(total[i].PerSecond(), string(mode)+"/s")
				b.ReportMetric(total[i].PerSecond()/total[0].PerSecond(), string(mode)+"/always")
			}
		})
	}
}

func openLibrary(tb testing.TB, mode natsembed.Sync) Library {
	tb.Helper()
	fail := func(err error) {
		if err != nil {
			tb.Fatal(err)
		}
	}
	srv, err := natsembed.Start(tb.Context(), natsembed.Config{DataDir: tb.TempDir(), Sync: mode})
	fail(err)
	tb.Cleanup(func() { _ = srv.Close() })
	nc, err := srv.Connect()
	fail(err)
	tb.Cleanup(nc.Close)
	cfg := kvslots.Config{Sole: true}
	if srv.Flusher() != nil {
		cfg.Durable = srv.Flusher().Durable
	}
	store, err := kvslots.Open(tb.Context(), nc, cfg)
	fail(err)
	tb.Cleanup(func() { _ = store.Close(context.Background()) })
	pool := uuid.New()
	_, err = store.Register(tb.Context(), pool, 1000)
	fail(err)
	return Library{store, pool}
}
