package peer

import (
	"cmp"
	"slices"
	"time"

	"github.com/kvslots/kvslots/kvslots/internal/entry"
	"github.com/kvslots/kvslots/kvslots/internal/rules"
)

// Stats describes the whole bucket at one instant.
type Stats struct {
	Sessions int // client sessions that are alive
	Names    []NameStats
	Idle     []IdleStats
	Pools    []PoolStats // by id
	More     bool        // there are pools after the last one
}

// NameStats describes a named pool that is in use.
type NameStats struct {
	Terms   entry.Terms
	Holders []HolderStats // by position
	Waiters []WaiterStats // in the order of the line
}

// HolderStats describes a lease of a named pool.
type HolderStats struct {
	Session     entry.Hash // zero for a lock that no session holds
	Owner       string
	Position    int
	Fence       uint64
	Age, EndsIn time.Duration
}

// WaiterStats describes a ticket of a named pool.
type WaiterStats struct {
	Session entry.Hash // zero for a lock that no session waits for
	Waited  time.Duration
}

// IdleStats describes a named pool that is idle.
type IdleStats struct {
	Terms entry.Terms
	Idle  time.Duration
}

// PoolStats describes a registered pool.
type PoolStats struct {
	Pool       entry.Hash
	State      State
	OldestWait time.Duration
}

func (r ReadStats) begin(p *Peer, c *call) {
	p.reads.whenCurrent(c, func() { c.answer(Answer{Stats: readStats(r, p.view, p.now)}) })
}

// readStats reads the stats from the view.
func readStats(r ReadStats, w *rules.View, now Instant) *Stats {
	stats := &Stats{Sessions: w.Clients}
	page := poolPage{after: r.After, most: r.MaxPools}
	w.EachPool(func(pool *rules.Pool) bool {
		terms := pool.Terms()
		since, idle := pool.IdleSince()
		switch {
		case !pool.Registered():
		case !terms.Named():
			page.add(pool)
		case pool.InUseOrWaited():
			stats.Names = append(stats.Names, nameStats(pool, now))
		case idle && now.Sub(since) < idleTime:
			stats.Idle = append(stats.Idle, IdleStats{terms, max(0, now.Sub(since))})
		}
		return true
	})
	slices.SortFunc(stats.Names, func(x, y NameStats) int { return compareTerms(x.Terms, y.Terms) })
	slices.SortFunc(stats.Idle, func(x, y IdleStats) int { return compareTerms(x.Terms, y.Terms) })
	page.cut()
	for _, pool := range page.pools {
		stats.Pools = append(stats.Pools, PoolStats{
			Pool: pool.ID, State: State{pool.Size(), pool.InUse(), pool.Waiting()}, OldestWait: oldestWait(pool, now),
		})
	}
	stats.More = page.more
	return stats
}

// poolPage collects the first pools by id, whatever the number of pools that are added.
type poolPage struct {
	after entry.Hash
	most  int // 0: no limit
	pools []*rules.Pool
	more  bool // a pool was left out
}

func (g *poolPage) add(pool *rules.Pool) {
	if g.most > 0 && slices.Compare(pool.ID[:], g.after[:]) <= 0 {
		return
	}
	if g.more && slices.Compare(pool.ID[:], g.pools[g.most-1].ID[:]) > 0 {
		return // after the last one of a page that is full
	}
	if g.pools = append(g.pools, pool); g.most > 0 && len(g.pools) >= 2*g.most {
		g.cut()
	}
}

// cut sorts the pools, and drops those beyond the page.
func (g *poolPage) cut() {
	slices.SortFunc(g.pools, func(x, y *rules.Pool) int { return slices.Compare(x.ID[:], y.ID[:]) })
	if g.most > 0 && len(g.pools) > g.most {
		g.pools, g.more = g.pools[:g.most], true
	}
}

func compareTerms(x, y entry.Terms) int {
	return cmp.Or(cmp.Compare(x.Name, y.Name), cmp.Compare(x.Dialect, y.Dialect))
}

func oldestWait(pool *rules.Pool, now Instant) (oldest time.Duration) {
	pool.Tickets(func(t *rules.Ticket) bool {
		if t.Stands() {
			oldest = max(0, now.Sub(t.Seen))
			return false
		}
		return true
	})
	return oldest
}

func nameStats(pool *rules.Pool, now Instant) NameStats {
	stats := NameStats{Terms: pool.Terms()}
	pool.Slots(func(s *rules.Slot) bool {
		if s.Live() {
			stats.Holders = append(stats.Holders, HolderStats{
				Session: s.Value.Session, Owner: s.Value.Owner, Position: s.Position, Fence: s.Fence,
				Age: max(0, now.Sub(s.Granted)), EndsIn: max(0, s.Ends.Sub(now)),
			})
		}
		return true
	})
	pool.Tickets(func(t *rules.Ticket) bool {
		if t.Stands() {
			w := WaiterStats{Waited: max(0, now.Sub(t.Seen))}
			if t.Value.Enqueued() || !t.Value.Peer.IsZero() {
				w.Session = t.Key.Session
			}
			stats.Waiters = append(stats.Waiters, w)
		}
		return true
	})
	return stats
}
