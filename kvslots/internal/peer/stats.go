package peer

import (
	"cmp"
	"math"
	"slices"

	"github.com/kvslots/kvslots/kvslots/internal/entry"
	"github.com/kvslots/kvslots/kvslots/internal/rules"
)

func (p *look) readStats(c *call, r ReadStats) {
	p.whenCurrent(c, func() { c.answer(Answer{Stats: readStats(r, p.view(), p.now())}) })
}

// readStats reads the stats from the view, in a time that depends on what it returns.
func readStats(r ReadStats, v *rules.View, now Instant) *Stats {
	stats := &Stats{Sessions: v.Clients}
	all := ReadPool{MaxHolders: math.MaxInt, MaxWaiters: math.MaxInt}
	for _, pool := range v.NamesInUse() {
		stats.Names = append(stats.Names, *all.read(pool, now))
	}
	for pool, since := range v.IdleNames.Each {
		if idle := now.Sub(since); idle < idleTime {
			stats.Idle = append(stats.Idle, IdleStats{pool.Terms(), max(0, idle)})
		}
	}
	slices.SortFunc(stats.Names, func(x, y PoolDetail) int { return compareTerms(x.Terms, y.Terms) })
	slices.SortFunc(stats.Idle, func(x, y IdleStats) int { return compareTerms(x.Terms, y.Terms) })
	for pool := range v.PoolsAfter(r.After) {
		if stats.More = r.MaxPools > 0 && len(stats.Pools) == r.MaxPools; stats.More {
			break
		}
		stats.Pools = append(stats.Pools, statsOf(pool, now))
	}
	return stats
}

func compareTerms(x, y entry.Terms) int {
	return cmp.Or(cmp.Compare(x.Name, y.Name), cmp.Compare(x.Dialect, y.Dialect))
}
