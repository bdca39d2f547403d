package peer

import (
	"cmp"
	"math"
	"slices"
	"time"

	"github.com/kvslots/kvslots/kvslots/internal/entry"
	"github.com/kvslots/kvslots/kvslots/internal/rules"
)

func (k *kernel) readStats(c *call, r ReadStats) {
	k.reads.whenCurrent(c, func() { c.answer(Answer{Stats: readStats(r, k.view, k.now)}) })
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

func statsOf(p *rules.Pool, now Instant) PoolStats {
	return PoolStats{
		Pool: p.ID, Title: p.Config.Title, Terms: p.Terms(), State: stateOf(p), OldestWait: oldestWait(p, now),
		Expired: p.Expired(now), Out: p.Config.Out,
	}
}

func oldestWait(pool *rules.Pool, now Instant) time.Duration {
	for _, t := range pool.Line {
		return max(0, now.Sub(t.Seen))
	}
	return 0
}

func holderOf(s *rules.Slot, now Instant) HolderStats {
	return HolderStats{
		Session: s.Value.Session, Owner: s.Value.Owner, Position: s.Position, Fence: s.Fence,
		Age: max(0, now.Sub(s.Granted)), EndsIn: max(0, s.Ends.Sub(now)), Label: s.Label(),
	}
}

func waiterOf(t *rules.Ticket, place int, now Instant) WaiterStats {
	return WaiterStats{Session: t.Holder(), Place: place, Waited: max(0, now.Sub(t.Seen)), Label: t.Label(), Away: t.Absent()}
}
