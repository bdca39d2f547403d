package dflockd_test

import (
	"net/url"
	"testing"

	"github.com/google/uuid"

	"github.com/kvslots/kvslots/kvslots"
	"github.com/kvslots/kvslots/kvslots/wire"
)

// A client that follows pools_after finds each pool once.
func TestStatsInPages(t *testing.T) {
	const pools = wire.MaxPools + 5
	store := openStore(t, kvslots.Config{})
	d := openFixture(t, store)
	for i := range pools {
		if _, err := store.Register(t.Context(), uuid.New(), i%7); err != nil {
			t.Fatal(err)
		}
	}
	first := d.statsOf(t, "")
	if len(first.Pools) != wire.MaxPools || first.PoolsAfter != first.Pools[wire.MaxPools-1].Pool {
		t.Fatalf("%d pools, then those after %q", len(first.Pools), first.PoolsAfter)
	}
	second := d.statsOf(t, "?pools_after="+url.QueryEscape(first.PoolsAfter))
	if len(second.Pools) != 5 || second.PoolsAfter != "" || second.Pools[0].Pool <= first.PoolsAfter {
		t.Errorf("%d pools, from %s, then those after %q", len(second.Pools), second.Pools[0].Pool, second.PoolsAfter)
	}
	d.want(t, "", "GET", "/v1/stats?pools_after=x", "", 400, `\{"error":"bad_request","detail":"pools_after must be the hash of a pool"\}`)
}
