package bench

import (
	"testing"

	"github.com/kvslots/kvslots/natsembed"
)

// BenchmarkPair is borrow and return, one after the other, by each door. The
// allocations are those of the client, the gateway and the server together, which
// all run in this process.
func BenchmarkPair(b *testing.B) {
	r, err := startRig(b.Context(), b.TempDir(), natsembed.SyncInterval, holdInProcess)
	if err != nil {
		b.Fatal(err)
	}
	b.Cleanup(func() {
		if err := r.close(); err != nil {
			b.Error(err)
		}
	})
	for _, door := range r.doors {
		b.Run(door.Name(), func(b *testing.B) {
			pair, closePair, err := doorPairs(door)(b.Context(), 1)
			if err != nil {
				b.Fatal(err)
			}
			defer func() {
				if err := bounded(closePair)(); err != nil {
					b.Error(err)
				}
			}()
			b.ReportAllocs()
			for b.Loop() {
				if err := pair(b.Context(), 0); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}
