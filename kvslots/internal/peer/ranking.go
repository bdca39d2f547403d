package peer

import (
	"bytes"
	"cmp"
	"slices"
	"strings"

	"github.com/kvslots/kvslots/kvslots/internal/rules"
)

// compare orders those of a greater measure first, and those of one measure by their ids.
func (x Cursor) compare(y Cursor) int {
	return cmp.Or(cmp.Compare(y.Measure, x.Measure), bytes.Compare(x.Pool[:], y.Pool[:]))
}

func (o Order) measure(p *rules.Pool, now Instant) uint64 {
	switch o {
	case ByOldestWait:
		return uint64(oldestWait(p, now))
	case ByInUse:
		return uint64(p.InUse())
	case ByExpired:
		return uint64(p.Expired(now))
	}
	return uint64(p.Waiting())<<32 | uint64(p.InUse())
}

// CursorOf returns the position of a pool in an order.
func (o Order) CursorOf(s *PoolStats) Cursor {
	switch o {
	case ByOldestWait:
		return Cursor{uint64(s.OldestWait), s.Pool}
	case ByInUse:
		return Cursor{uint64(s.State.InUse), s.Pool}
	case ByExpired:
		return Cursor{uint64(s.Expired), s.Pool}
	}
	return Cursor{uint64(s.State.Waiting)<<32 | uint64(s.State.InUse), s.Pool}
}

func (k *kernel) readPools(c *call, r ReadPools) {
	k.reads.whenCurrent(c, func() { c.answer(Answer{Stats: r.read(k.view, k.now)}) })
}

// read looks at every pool once, and keeps the first that it is to return.
func (r *ReadPools) read(v *rules.View, now Instant) *Stats {
	type ranked struct {
		Cursor
		pool *rules.Pool
	}
	var first []ranked
	match := strings.ToLower(r.Match)
	for p := range v.EachInUse {
		x := ranked{Cursor{r.Order.measure(p, now), p.ID}, p}
		if r.After != (Cursor{}) && x.compare(r.After) <= 0 || r.Waited && p.WaitingUpTo(1) == 0 || !matches(p, match) {
			continue
		}
		if full := len(first) > r.Max; full && x.compare(first[r.Max].Cursor) >= 0 {
			continue
		} else if full {
			first = first[:r.Max]
		}
		i, _ := slices.BinarySearchFunc(first, x, func(a, b ranked) int { return a.compare(b.Cursor) })
		first = slices.Insert(first, i, x)
	}
	stats := &Stats{More: len(first) > r.Max}
	for _, x := range first[:min(len(first), r.Max)] {
		stats.Pools = append(stats.Pools, statsOf(x.pool, now))
	}
	return stats
}

func matches(p *rules.Pool, lower string) bool {
	return lower == "" || strings.Contains(strings.ToLower(p.Config.Title), lower) ||
		strings.Contains(strings.ToLower(p.Terms().Name), lower) || strings.HasPrefix(p.ID.String(), lower)
}
