package peer

import (
	"bytes"
	"slices"

	"github.com/kvslots/kvslots/kvslots/internal/rules"
	"github.com/kvslots/kvslots/kvslots/reads"
)

func (p *look) findPools(c *call, r FindPools) {
	p.whenCurrent(c, func() { c.answer(Answer{Stats: r.read(p.view(), p.now())}) })
}

// read takes a time that hardly depends on how many pools there are: it looks at 1 in 256 of them.
func (r *FindPools) read(v *rules.View, now Instant) *reads.Stats {
	var found []*rules.Pool
	add := func(p *rules.Pool) bool {
		if !slices.Contains(found, p) {
			found = append(found, p)
		}
		return len(found) < r.Max
	}
	for _, p := range v.Titled(r.Title) {
		if !add(p) {
			break
		}
	}
	for _, id := range r.Names {
		if p := v.Pool(id); p != nil && p.InUseOrWaited() {
			add(p)
		}
	}
	if r.Digits != "" {
		v.EachBeginning(r.Digits)(add)
	}
	found = found[:min(len(found), r.Max)]
	slices.SortFunc(found, func(x, y *rules.Pool) int { return bytes.Compare(x.ID[:], y.ID[:]) })
	stats := &reads.Stats{}
	for _, p := range found {
		stats.Pools = append(stats.Pools, poolOf(p, now))
	}
	return stats
}
