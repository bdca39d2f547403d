package bench

import (
	"context"
	"net"
	"net/http"
	"testing"
	"time"

	"github.com/google/uuid"
	"github.com/nats-io/nats.go/jetstream"
	"github.com/rs/zerolog"

	"github.com/kvslots/kvslots/gateway"
	"github.com/kvslots/kvslots/gateway/library"
	"github.com/kvslots/kvslots/kvslots"
	"github.com/kvslots/kvslots/natsembed"
)

// setUp serves a pool on an embedded server, and gives the three workloads.
func setUp(tb testing.TB, sync natsembed.Sync) []Workload {
	tb.Helper()
	ctx := tb.Context()
	fail := func(err error) {
		if err != nil {
			tb.Fatal(err)
		}
	}
	srv, err := natsembed.Start(ctx, natsembed.Config{DataDir: tb.TempDir(), Sync: sync})
	fail(err)
	tb.Cleanup(func() { _ = srv.Close() })
	nc, err := srv.Connect()
	fail(err)
	tb.Cleanup(nc.Close)
	cfg := kvslots.Config{Sole: true}
	if srv.Flusher() != nil {
		cfg.Durable = srv.Flusher().Durable
	}
	store, err := kvslots.Open(ctx, nc, cfg)
	fail(err)
	tb.Cleanup(func() { _ = store.Close(context.Background()) })
	pool := uuid.New()
	_, err = store.Register(ctx, pool, 1000)
	fail(err)

	js, err := jetstream.New(nc)
	fail(err)
	_, err = js.CreateStream(ctx, jetstream.StreamConfig{
		Name: "raw", Subjects: []string{"raw.*"}, MaxMsgsPerSubject: 1, AllowMsgTTL: true,
		SubjectDeleteMarkerTTL: 2 * time.Minute, Storage: jetstream.FileStorage,
	})
	fail(err)

	lending := gateway.NewLending()
	g := gateway.New(gateway.Config{
		Store: store, Sync: string(sync), Lending: lending, Logger: zerolog.Nop(),
		Dialects: []gateway.Dialect{library.New(store, lending, zerolog.Nop())},
	})
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	fail(err)
	served := make(chan error, 1)
	go func() { served <- g.Serve(ln) }()
	tb.Cleanup(func() {
		_ = g.Drain(context.Background())
		<-served
	})
	transport := &http.Transport{MaxIdleConnsPerHost: 1000}
	tb.Cleanup(transport.CloseIdleConnections)
	return []Workload{
		Raw{js, "raw."},
		Library{store, pool},
		HTTP{&http.Client{Transport: transport}, "http://" + ln.Addr().String() + "/l/" + pool.String()},
	}
}

// BenchmarkCycles runs the workloads in turn and reports their cycles a second,
// and what part of the ceiling they reach.
func BenchmarkCycles(b *testing.B) {
	for _, sync := range []natsembed.Sync{natsembed.SyncInterval, natsembed.SyncGroup, natsembed.SyncAlways} {
		for _, clients := range []struct {
			name string
			n    int
		}{{"1", 1}, {"64", 64}} {
			b.Run("sync="+string(sync)+"/clients="+clients.name, func(b *testing.B) {
				workloads := setUp(b, sync)
				for _, w := range workloads {
					Run(b.Context(), w, clients.n, 200*time.Millisecond) // warm up
				}
				b.ResetTimer()
				total := make([]Result, len(workloads))
				for range b.N {
					for i, w := range workloads {
						r := Run(b.Context(), w, clients.n, time.Second)
						total[i].Cycles += r.Cycles
						total[i].Elapsed += r.Elapsed
						total[i].Latency = append(total[i].Latency, r.Latency...)
						if r.Errors > 0 {
							b.Fatalf("%s: %d errors", w.Name(), r.Errors)
						}
					}
				}
				b.ReportMetric(0, "ns/op") // a round's length says nothing
				for i, w := range workloads {
					b.ReportMetric(total[i].PerSecond(), w.Name()+"/s")
					b.ReportMetric(float64(total[i].Latency.Percentile(50).Microseconds()), w.Name()+"-p50-us")
					b.ReportMetric(float64(total[i].Latency.Percentile(99).Microseconds()), w.Name()+"-p99-us")
					if i > 0 {
						b.ReportMetric(total[i].PerSecond()/total[0].PerSecond(), w.Name()+"/raw")
					}
				}
			})
		}
	}
}

// TestWorkloads runs each for an instant: none may fail.
func TestWorkloads(t *testing.T) {
	for _, w := range setUp(t, natsembed.SyncInterval) {
		t.Run(w.Name(), func(t *testing.T) {
			r := Run(t.Context(), w, 8, 50*time.Millisecond)
			if r.Errors > 0 || r.Cycles == 0 {
				t.Errorf("%d cycles, %d errors", r.Cycles, r.Errors)
			}
		})
	}
}
