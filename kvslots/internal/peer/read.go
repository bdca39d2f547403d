package peer

import "github.com/kvslots/kvslots/kvslots/internal/rules"

// The reads of one pool take a time that depends on what the pool holds, not on the bucket.

func (p *look) readPool(c *call, r ReadPool) {
	p.whenPool(c, r.Pool, func(pool *rules.Pool) { c.answer(Answer{Detail: r.read(pool, p.now())}) })
}

func (r *ReadPool) read(pool *rules.Pool, now Instant) *PoolDetail {
	d := &PoolDetail{PoolStats: statsOf(pool, now)}
	for s := range pool.Slots {
		if !s.Live() || s.Position < r.From {
			continue
		}
		if d.MoreHolders = len(d.Holders) >= r.MaxHolders; d.MoreHolders {
			break
		}
		d.Holders = append(d.Holders, holderOf(s, now))
	}
	for place, t := range pool.Line {
		if len(d.Waiters) >= r.MaxWaiters {
			break
		}
		if place > r.After {
			d.Waiters = append(d.Waiters, waiterOf(t, place, now))
		}
	}
	return d
}

// read needs no barrier for a lease that the view shows: its holder asks again and again, and the end may come at any time.
func (h *Held) read(p *look, c *call) {
	p.decide(c, func(current bool) bool {
		s, err := h.find(p.leases)
		switch {
		case err == nil:
			c.answer(Answer{Detail: &PoolDetail{PoolStats: statsOf(s.Pool, p.now()), Holders: []HolderStats{holderOf(s, p.now())}}})
		case current:
			c.answer(Answer{Err: err})
		}
		return err == nil || current
	})
}

func (p *look) readPlace(c *call, r ReadPlace) {
	p.whenPool(c, r.Pool, func(pool *rules.Pool) {
		d := &PoolDetail{PoolStats: statsOf(pool, p.now())}
		if s := pool.Requested(r.Request); s != nil {
			d.Holders = []HolderStats{holderOf(s, p.now())}
			c.answer(Answer{Detail: d})
			return
		}
		for place, t := range pool.Line {
			if t.Value.Request == r.Request && !r.Request.IsZero() {
				d.Waiters = []WaiterStats{waiterOf(t, place, p.now())}
				c.answer(Answer{Detail: d})
				return
			}
		}
		c.answer(Answer{Err: ErrNotInLine})
	})
}
