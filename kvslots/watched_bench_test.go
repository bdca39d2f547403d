package kvslots

import (
	"context"
	"fmt"
	"testing"
	"time"

	"github.com/kvslots/kvslots/kvslots/internal/natstest"
)

// BenchmarkWatchedCycle is BenchmarkCycle while watchers read the events.
func BenchmarkWatchedCycle(b *testing.B) {
	for _, watchers := range []int{0, 1, 20} {
		b.Run(fmt.Sprint("watchers=", watchers), func(b *testing.B) {
			s := openPeers(b, natstest.Start(b, ""), 1)[0]
			pool := newPool(b, s, 100)
			ctx, cancel := context.WithCancel(context.Background())
			ended := make(chan struct{}, watchers)
			for range watchers {
				w := s.Watch(0)
				go func() {
					defer func() { ended <- struct{}{} }()
					defer w.Close()
					for {
						if _, err := w.Next(ctx); err != nil {
							return
						}
					}
				}()
			}
			b.ReportAllocs()
			for b.Loop() {
				l, err := s.Borrow(ctx, pool, time.Minute, 0)
				if err != nil {
					b.Fatal(err)
				}
				if ok, err := s.Return(ctx, pool, l.ID()); !ok || err != nil {
					b.Fatal(ok, err)
				}
			}
			cancel()
			for range watchers {
				<-ended
			}
		})
	}
}
