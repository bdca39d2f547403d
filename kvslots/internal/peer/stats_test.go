package peer

import (
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/kvslots/kvslots/kvslots/internal/entry"
	"github.com/kvslots/kvslots/kvslots/internal/rules"
)

// A page has the pools that sorting all of them would find.
func TestPoolPage(t *testing.T) {
	seed := rand.Uint64()
	random := rand.New(rand.NewPCG(seed, 0))
	for range 200 {
		pools := make([]*rules.Pool, random.IntN(60))
		for i := range pools {
			pools[i] = &rules.Pool{ID: entry.Hash{byte(i), 1}}
		}
		after, most := entry.Hash{byte(random.IntN(60)), byte(random.IntN(3))}, 1+random.IntN(20)
		var want []*rules.Pool
		for _, pool := range pools {
			if slices.Compare(pool.ID[:], after[:]) > 0 {
				want = append(want, pool)
			}
		}
		more := len(want) > most
		want = want[:min(len(want), most)]

		page := poolPage{after: after, most: most}
		for _, i := range random.Perm(len(pools)) {
			page.add(pools[i])
		}
		if page.cut(); !slices.Equal(page.pools, want) || page.more != more {
			t.Fatalf("seed %d: %d of %d pools after %s: got %d pools, more: %v; want %d, %v",
				seed, most, len(pools), after, len(page.pools), page.more, len(want), more)
		}
	}
}
