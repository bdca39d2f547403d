package peer

import (
	"github.com/kvslots/kvslots/kvslots/internal/entry"
	"github.com/kvslots/kvslots/kvslots/internal/rules"
)

// setOut writes a pool's configuration, unless a view that is live and as new as the call shows
// that it says so already, or that a cap on names forbids it.
func (p *registry) setOut(c *call, r SetOut) {
	p.decide(c, func(current bool) bool { return r.step(p, c, current) })
}

func (r SetOut) step(p *registry, c *call, current bool) (decided bool) {
	pool := p.view().Pool(r.Pool)
	changes := r.changes(pool)
	waits, err := r.reached(p, pool)
	switch {
	case changes && !waits && err == nil:
		r.write(p, c)
	case !current:
		return false
	case pool.Exists() && r.Position >= pool.Size() && !r.InService:
		c.answer(Answer{Err: ErrNoPosition})
	case !changes:
		p.answerState(c, r.Pool, Answer{Err: ErrNoPool})
	case waits:
		p.after(c, failurePause, func() { r.step(p, c, true) })
	default:
		c.answer(Answer{Err: err})
	}
	return true
}

func (r SetOut) write(p *registry, c *call) {
	pool := p.view().Pool(r.Pool)
	w := p.putFor(c, p.config(r.Pool, r.value(pool)), func(*write) {
		p.answerState(c, r.Pool, Answer{Err: ErrNoPool})
	}, func() { p.setOut(c, r) })
	w.charge(r.limits(p, pool))
}

func (r SetOut) value(pool *rules.Pool) entry.ConfigValue {
	value := pool.Config.WithIn(r.Position)
	if !r.InService {
		value = pool.Config.WithOut(r.Out, r.Origin)
	}
	value.Closing = false
	return value
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
func (r SetOut) limits(p *registry, pool *rules.Pool) []limit {
	if r.InService || !pool.Terms().Named() {
		return nil
	}
	return p.limitsOfName(pool, r.Origin)
}

// reached returns which cap forbids the call: that of a pool's list, or see writes.reached.
func (r SetOut) reached(p *registry, pool *rules.Pool) (waits bool, err error) {
	if !r.InService && r.changes(pool) {
		if value := r.value(pool); value.OutSize() > entry.MaxOut {
			return false, ErrMaxOut
		}
	}
	return p.reached(r.limits(p, pool)...)
}
