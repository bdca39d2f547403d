package rules

// Totals are sums over pools.
type Totals struct{ Pools, Capacity, InUse int }

func (t *Totals) add(of Totals, sign int) {
	t.Pools += sign * of.Pools
	t.Capacity += sign * of.Capacity
	t.InUse += sign * of.InUse
}

// totals holds what metrics read. It is kept up to date pool by pool, so that reading it
// does not take time for each pool.
type totals struct {
	Registered Totals // of the registered pools without a name
	InNames    Totals // of the named pools in use
	lined      poolSet
}

// share is what a pool contributes to the totals.
type share struct {
	of    *Totals // nil: nothing
	count int32
	inUse int32
}

func (s share) totals() Totals { return Totals{Pools: 1, Capacity: int(s.count), InUse: int(s.inUse)} }

// settleTotals updates what a pool contributes.
func (v *View) settleTotals(p *Pool) {
	var now share
	switch {
	case p.used:
		now.of = &v.InNames
	case p.Registered() && !p.Terms().Named():
		now.of = &v.Registered
	}
	if now.of != nil {
		now.count, now.inUse = int32(p.Size()), int32(p.InUse())
	}
	v.lined.put(p, len(p.line.tickets) > 0)
	if now == p.share {
		return
	}
	if p.share.of != nil {
		p.share.of.add(p.share.totals(), -1)
	}
	if now.of != nil {
		now.of.add(now.totals(), 1)
	}
	p.share = now
}

// Lines returns how many tickets stand in a line, and when the oldest of them came.
func (v *View) Lines() (waiting int, oldest Instant) {
	for _, p := range v.lined.list {
		for _, t := range p.line.tickets {
			if !t.Stands() {
				continue
			}
			if waiting == 0 || t.Seen < oldest {
				oldest = t.Seen
			}
			waiting++
		}
	}
	return waiting, oldest
}
