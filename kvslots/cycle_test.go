package kvslots

import (
	"context"
	"testing"
	"time"

	"github.com/kvslots/kvslots/kvslots/internal/natstest"
)

// BenchmarkCycle is borrow and return, one after the other. Its allocations
// include those of the server, which runs in this process.
func BenchmarkCycle(b *testing.B) {
	s := openPeers(b, natstest.Start(b, ""), 1)[0]
	pool := newPool(b, s, 100)
	ctx := context.Background()
	b.ReportAllocs()
	for b.Loop() {
		l, err := s.Borrow(ctx, pool, WithFixedTTL(time.Minute), WithWait(0))
		natstest.Must(b, err)
		if ok, err := s.Return(ctx, pool, l.ID()); !ok || err != nil {
			b.Fatal(ok, err)
		}
	}
}
