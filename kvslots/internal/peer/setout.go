package peer

import (
	"github.com/kvslots/kvslots/kvslots/internal/entry"
	"github.com/kvslots/kvslots/kvslots/internal/rules"
)

// setOut writes a pool's configuration, unless a view that is live and as new as the call shows
// that it says so already, or that a cap on names forbids it.
func (p *pools) setOut(c *call, r SetOut) {
	c.when(func() bool { return r.mayWrite(p) }, func() { r.write(p, c) }, func() { r.review(p, c) })
}

// review decides about the call in a view that is live and as new as the call.
func (r SetOut) review(p *pools, c *call) {
	pool := p.view.Pool(r.Pool)
	waits, err := r.reached(p, pool)
	switch {
	case r.mayWrite(p):
		r.write(p, c)
	case pool.Exists() && r.Position >= pool.Size() && !r.InService:
		c.answer(Answer{Err: ErrNoPosition})
	case !r.changes(pool):
		p.answerState(c, r.Pool, Answer{Err: ErrNoPool})
	case waits:
		c.afterLive(failurePause, func() { r.review(p, c) })
	default:
		c.answer(Answer{Err: err})
	}
}

func (r SetOut) write(p *pools, c *call) {
	pool := p.view.Pool(r.Pool)
	value := r.value(pool)
	limits := r.limits(p, pool)
	w := p.writePool(c, r.Pool, value, func(resolution) {
		p.answerState(c, r.Pool, Answer{Err: ErrNoPool})
	}, func() { p.setOut(c, r) })
	w.charge(limits)
}

func (r SetOut) value(pool *rules.Pool) entry.ConfigValue {
	value := pool.Config.WithIn(r.Position)
	if !r.InService {
		value = pool.Config.WithOut(r.Out, r.Origin)
	}
	value.Closing = false
	return value
}

func (r SetOut) mayWrite(p *pools) bool {
	pool := p.view.Pool(r.Pool)
	waits, err := r.reached(p, pool)
	return r.changes(pool) && !waits && err == nil
}

// changes reports whether something has to be written. A position that the pool no longer has
// can only be put back.
func (r SetOut) changes(pool *rules.Pool) bool {
	if !pool.Exists() || r.Position >= pool.Size() && !r.InService {
		return false
	}
	out, is := pool.Config.OutAt(r.Position)
	if r.InService {
		return is
	}
	return !is || out != r.Out
}

// limits returns the caps on names that the call may reach: a name of which anything is out of
// service is in use, by the client that has taken it out.
func (r SetOut) limits(p *pools, pool *rules.Pool) []limit {
	if r.InService || !pool.Terms().Named() {
		return nil
	}
	return p.limitsOfName(pool, r.Origin)
}

// reached returns which cap forbids the call: that of a pool's list, or see writes.reached.
func (r SetOut) reached(p *pools, pool *rules.Pool) (waits bool, err error) {
	if !r.InService && r.changes(pool) {
		if value := r.value(pool); value.OutSize() > entry.MaxOut {
			return false, ErrMaxOut
		}
	}
	return p.writes.reached(r.limits(p, pool)...)
}
