package peer

import (
	"github.com/kvslots/kvslots/kvslots/internal/rules"
	"github.com/kvslots/kvslots/kvslots/reads"
)

// The reads of one pool take a time that depends on what the pool holds, not on the bucket.

func (p *look) readPool(c *call, r ReadPool) {
	p.whenPool(c, r.Pool, func(pool *rules.Pool) { c.answer(Answer{Detail: r.read(pool, p.now())}) })
}

func (r *ReadPool) read(pool *rules.Pool, now Instant) *reads.Detail {
	d := detailOf(pool, now)
	if r.MaxHolders > 0 {
		r.readHolders(pool, now, d)
	}
	if r.MaxWaiters > 0 {
		r.readLine(pool, now, d)
	}
	return d
}

func (r *ReadPool) readHolders(pool *rules.Pool, now Instant, d *reads.Detail) {
	d.Holders = []reads.Holder{}
	for s := range pool.Slots {
		if !s.Live() || s.Position < r.From {
			continue
		}
		if n := len(d.Holders); n == r.MaxHolders {
			d.NextFrom = d.Holders[n-1].Position + 1
			break
		}
		d.Holders = append(d.Holders, holderOf(s, now))
	}
}

func (r *ReadPool) readLine(pool *rules.Pool, now Instant, d *reads.Detail) {
	d.Waiters = []reads.Waiter{}
	for place, t := range pool.Line {
		if n := len(d.Waiters); n == r.MaxWaiters {
			d.NextAfter = d.Waiters[n-1].Place
			break
		}
		if place > r.After {
			d.Waiters = append(d.Waiters, waiterOf(t, place, now))
		}
	}
}

// read needs no barrier for a lease that the view shows: its holder asks again and again, and the end may come at any time.
func (h *Held) read(p *look, c *call) {
	p.decide(c, func(current bool) bool {
		s, err := h.find(p.leases)
		switch {
		case err == nil:
			c.answer(Answer{Detail: &reads.Detail{Holders: []reads.Holder{holderOf(s, p.now())}}})
		case current:
			c.answer(Answer{Err: err})
		}
		return err == nil || current
	})
}

func (p *look) readPlace(c *call, r ReadPlace) {
	p.whenPool(c, r.Pool, func(pool *rules.Pool) {
		d := &reads.Detail{}
		if s := pool.Requested(r.Request); s != nil {
			d.Holders = []reads.Holder{holderOf(s, p.now())}
			c.answer(Answer{Detail: d})
			return
		}
		for place, t := range pool.Line {
			if t.Value.Request == r.Request && !r.Request.IsZero() {
				d.Waiters = []reads.Waiter{waiterOf(t, place, p.now())}
				c.answer(Answer{Detail: d})
				return
			}
		}
		c.answer(Answer{Err: ErrNotInLine})
	})
}
