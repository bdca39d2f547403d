package peer

import (
	"bytes"
	"crypto/sha256"
	"encoding/binary"
	"testing"
	"time"

	"github.com/kvslots/kvslots/kvslots/internal/entry"
	"github.com/kvslots/kvslots/kvslots/internal/rules"
)

// registered returns a view of n registered pools.
func registered(n int) *rules.View {
	view := rules.New()
	for i := range n {
		sum := sha256.Sum256(binary.BigEndian.AppendUint64(nil, uint64(i)))
		e := entry.Entry{Key: rules.ConfigKey(entry.Hash(sum[:])), Revision: uint64(i + 1), Time: time.Unix(1_790_000_000, 0)}
		e.Config = entry.ConfigValue{Count: 1, Generation: uint64(i + 1)}
		view.Apply(&e, 0, Instant(time.Hour))
		view.Touched()
	}
	return view
}

// The pages of the stats have each pool once, and the last page says that it is the last.
func TestStatsPages(t *testing.T) {
	for _, pools := range []int{0, 1, 299, 300, 301, 1000} {
		view, read, seen := registered(pools), ReadStats{MaxPools: 100}, 0
		for more := true; more; {
			page := readStats(read, view, Instant(time.Hour))
			for _, pool := range page.Pools {
				if bytes.Compare(pool.Hash[:], read.After[:]) <= 0 {
					t.Fatalf("%s is listed after %s", pool.Hash, read.After)
				}
				read.After = pool.Hash
			}
			if seen += len(page.Pools); len(page.Pools) > 100 || page.More != (seen < pools) {
				t.Fatalf("%d of %d pools, %d on this page, more: %v", seen, pools, len(page.Pools), page.More)
			}
			more = page.More
		}
		if seen != pools {
			t.Errorf("%d pools of %d", seen, pools)
		}
	}
}

// A page of the stats, of which the peer's lock is held while it is read.
func BenchmarkStatsPage(b *testing.B) {
	for _, pools := range []struct {
		name string
		n    int
	}{{"1000", 1000}, {"10000", 10_000}, {"100000", 100_000}} {
		b.Run(pools.name, func(b *testing.B) {
			view := registered(pools.n)
			b.ReportAllocs()
			for b.Loop() {
				if page := readStats(ReadStats{MaxPools: 1000}, view, Instant(time.Hour)); len(page.Pools) != 1000 {
					b.Fatal(len(page.Pools))
				}
			}
		})
	}
}
