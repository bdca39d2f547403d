package peer

import (
	"github.com/kvslots/kvslots/kvslots/internal/entry"
	"github.com/kvslots/kvslots/kvslots/internal/rules"
)

func (p *pools) inspect(c *call, r Inspect) {
	p.reads.whenCurrent(c, func() { p.answerState(c, r.Pool, Answer{Err: ErrNoPool}) })
}

// answerState answers with a pool's state, or with gone if the pool does not exist.
func (p *pools) answerState(c *call, id entry.Hash, gone Answer) {
	p.whenCertain(c, id, func(pool *rules.Pool) {
		if !pool.Exists() {
			c.answer(gone)
			return
		}
		c.answer(Answer{State: stateOf(pool)})
	})
}

func stateOf(p *rules.Pool) State { return State{p.Size(), p.InUse(), p.Waiting(), p.Out()} }

// whenCertain calls do when no claim of a pool may be withdrawn.
func (p *pools) whenCertain(c *call, id entry.Hash, do func(*rules.Pool)) {
	if pool := p.view.Pool(id); !pool.InDoubt(p.now) {
		do(pool)
		return
	}
	c.after(inFlightPause, func() { p.whenCertain(c, id, do) })
}
