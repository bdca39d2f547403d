package peer

import (
	"cmp"
	"math"
	"slices"

	"github.com/kvslots/kvslots/kvslots/internal/rules"
	"github.com/kvslots/kvslots/kvslots/reads"
)

// look reads the view for callers.
type look struct{ *leases }

func (p *look) readStats(c *call, r ReadStats) {
	p.whenCurrent(c, func() { c.answer(Answer{Stats: readStats(r, p.view(), p.now())}) })
}

// readStats reads the stats from the view, in a time that depends on what it returns.
func readStats(r ReadStats, v *rules.View, now Instant) *reads.Stats {
	stats := &reads.Stats{Sessions: v.Clients}
	all := ReadPool{MaxHolders: math.MaxInt, MaxWaiters: math.MaxInt}
	for _, pool := range v.NamesInUse() {
		stats.Names = append(stats.Names, *all.read(pool, now))
	}
	for pool, since := range v.IdleNames.Each {
		if idle := now.Sub(since); idle < idleTime {
			t := pool.Terms()
			stats.Idle = append(stats.Idle, reads.Idle{Type: typeOf(t), Key: t.Name, Dialect: t.Dialect, Idle: reads.Duration(max(0, idle))})
		}
	}
	slices.SortFunc(stats.Names, func(x, y reads.Detail) int {
		return cmp.Or(cmp.Compare(x.Key, y.Key), cmp.Compare(x.Dialect, y.Dialect))
	})
	slices.SortFunc(stats.Idle, func(x, y reads.Idle) int { return cmp.Or(cmp.Compare(x.Key, y.Key), cmp.Compare(x.Dialect, y.Dialect)) })
	for pool := range v.PoolsAfter(r.After) {
		if stats.More = r.MaxPools > 0 && len(stats.Pools) == r.MaxPools; stats.More {
			break
		}
		stats.Pools = append(stats.Pools, poolOf(pool, now))
	}
	return stats
}
