package peer

import (
	"github.com/kvslots/kvslots/kvslots/internal/entry"
	"github.com/kvslots/kvslots/kvslots/internal/rules"
)

// setOut writes a pool's configuration, unless a view that is live and as new as the call shows
// that it says so already, or that a cap on names forbids it. A name that is not in use it opens as a
// lock; the first borrow replaces the terms.
func (p *registry) setOut(c *call, r SetOut) {
	p.decide(c, func(current bool) (decided bool) {
		pool := p.view().Pool(r.Pool)
		changes := r.changes(pool)
		err := r.reached(p, pool)
		switch {
		case changes && err == nil:
			r.write(p, c)
		case !current:
			return false
		case pool.Exists() && r.Position >= pool.Size() && !r.InService:
			c.answer(Answer{Err: ErrNoPosition})
		case !changes:
			p.answerState(c, r.Pool, Answer{Err: ErrNoPool})
		default:
			c.answer(Answer{Err: err})
		}
		return true
	})
}

func (r SetOut) write(p *registry, c *call) {
	pool := p.view().Pool(r.Pool)
	value := r.value(pool)
	if !pool.Exists() {
		value.Count, value.Generation, value.Origin = 1, p.randomNumber(), r.Origin
		value.Terms = entry.Terms{Name: r.Name, Lock: true, Limit: 1}
	}
	p.putFor(c, p.config(r.Pool, value), func(*write) {
		p.answerState(c, r.Pool, Answer{Err: ErrNoPool})
	}, func() { p.setOut(c, r) })
}

func (r SetOut) value(pool *rules.Pool) entry.ConfigValue {
	value := entry.ConfigValue{}
	if pool.Exists() {
		value = pool.Config
	}
	if r.InService {
		value = value.WithIn(r.Position)
	} else {
		value = value.WithOut(r.Out, r.Origin)
	}
	value.Closing, value.By = false, r.By
	return value
}

// changes reports whether something has to be written. A position that the pool no longer has
// can only be put back.
func (r SetOut) changes(pool *rules.Pool) bool {
	if !pool.Exists() {
		return r.opens()
	}
	if r.Position >= pool.Size() && !r.InService {
		return false
	}
	out, is := pool.Config.OutAt(r.Position)
	if r.InService {
		return is
	}
	return !is || out != r.Out
}

// opens reports whether the call takes a name out of service that is not in use.
func (r SetOut) opens() bool { return r.Name != "" && !r.InService && r.Position == entry.WholePool }

// reached returns which cap forbids the call: that of a pool's list, or one on names. A name of which anything
// is out of service is in use, by the client that has taken it out.
func (r SetOut) reached(p *registry, pool *rules.Pool) error {
	if r.InService {
		return nil
	}
	if value := r.value(pool); r.changes(pool) && value.OutSize() > entry.MaxOut {
		return ErrMaxOut
	}
	if !pool.Terms().Named() && (pool.Exists() || !r.opens()) {
		return nil
	}
	return p.nameReached(pool, r.Origin)
}

// setLimit writes the limit of a semaphore. Its leases stay, if they are more too; its line goes on.
func (p *registry) setLimit(c *call, r SetLimit) {
	p.decide(c, func(current bool) bool {
		pool := p.view().Pool(r.Pool)
		terms := pool.Terms()
		switch {
		case terms.IsSemaphore() && terms.Limit != r.Limit:
			value := pool.Config.WithLimit(r.Limit)
			value.By = r.By
			p.putFor(c, p.config(r.Pool, value), func(*write) {
				p.answerState(c, r.Pool, Answer{Err: ErrNoPool})
			}, func() { p.setLimit(c, r) })
		case !current:
			return false
		case pool.Exists() && !terms.IsSemaphore():
			c.answer(Answer{Err: ErrLimitMismatch})
		default:
			p.answerState(c, r.Pool, Answer{Err: ErrNoPool})
		}
		return true
	})
}
