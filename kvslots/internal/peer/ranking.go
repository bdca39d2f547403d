package peer

import (
	"bytes"
	"cmp"
	"slices"
	"strings"

	"github.com/kvslots/kvslots/kvslots/internal/rules"
	"github.com/kvslots/kvslots/kvslots/reads"
)

// compare orders those of a greater measure first, and those of one measure by their ids.
func (x Cursor) compare(y Cursor) int {
	return cmp.Or(cmp.Compare(y.Measure, x.Measure), bytes.Compare(x.Pool[:], y.Pool[:]))
}

// CursorOf returns the position of a pool in an order.
func (o Order) CursorOf(s *reads.Pool) Cursor {
	switch o {
	case ByOldestWait:
		return Cursor{uint64(s.OldestWait), s.Hash}
	case ByInUse:
		return Cursor{uint64(s.InUse), s.Hash}
	case ByExpired:
		return Cursor{uint64(s.Expired), s.Hash}
	}
	return Cursor{uint64(s.Waiting)<<32 | uint64(s.InUse), s.Hash}
}

func (p *look) readPools(c *call, r ReadPools) {
	p.whenCurrent(c, func() { c.answer(Answer{Stats: r.read(p.view(), p.now())}) })
}

// read looks at every pool once, and keeps the first that it is to return.
func (r *ReadPools) read(v *rules.View, now Instant) *reads.Stats {
	var first []reads.Pool
	match, holder := strings.ToLower(r.Match), strings.ToLower(r.Holder)
	compare := func(x reads.Pool, y Cursor) int { return r.Order.CursorOf(&x).compare(y) }
	for p := range v.EachInUse {
		x := poolOf(p, now)
		at := r.Order.CursorOf(&x)
		if r.After != (Cursor{}) && at.compare(r.After) <= 0 || r.Waited && x.Waiting == 0 || !matches(&x, match) || !labelled(p, holder) {
			continue
		}
		if full := len(first) > r.Max; full && at.compare(r.Order.CursorOf(&first[r.Max])) >= 0 {
			continue
		} else if full {
			first = first[:r.Max]
		}
		i, _ := slices.BinarySearchFunc(first, at, compare)
		first = slices.Insert(first, i, x)
	}
	return &reads.Stats{Pools: first[:min(len(first), r.Max)], More: len(first) > r.Max}
}

func matches(s *reads.Pool, lower string) bool {
	return lower == "" || strings.Contains(strings.ToLower(s.Name), lower) ||
		strings.Contains(strings.ToLower(s.Key), lower) || strings.HasPrefix(s.Hash.String(), lower)
}

// labelled reports whether a lease or a ticket of a pool has a text in its label.
func labelled(pool *rules.Pool, lower string) bool {
	if lower == "" {
		return true
	}
	for s := range pool.Slots {
		if s.Live() && strings.Contains(strings.ToLower(s.Label()), lower) {
			return true
		}
	}
	for _, t := range pool.Line {
		if strings.Contains(strings.ToLower(t.Label()), lower) {
			return true
		}
	}
	return false
}
