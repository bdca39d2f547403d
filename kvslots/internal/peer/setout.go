package peer

// setOut writes a pool's configuration, unless a view that is live and as new as the call shows
// that it says so already.
func (p *pools) setOut(c *call, r SetOut) {
	c.when(func() bool { return r.changes(p) }, func() {
		value := p.view.Pool(r.Pool).Config.WithOut(r.Out, !r.InService)
		value.Closing = false
		p.writePool(c, r.Pool, value, func(resolution) {
			p.answerState(c, r.Pool, Answer{Err: ErrNoPool})
		}, func() { p.setOut(c, r) })
	}, func() {
		if pool := p.view.Pool(r.Pool); pool.Exists() && r.Position >= pool.Size() && !r.InService {
			c.answer(Answer{Err: ErrNoPosition})
		} else {
			p.answerState(c, r.Pool, Answer{Err: ErrNoPool})
		}
	})
}

// changes reports whether something has to be written. A position that the pool no longer has
// can only be put back.
func (r *SetOut) changes(p *pools) bool {
	pool := p.view.Pool(r.Pool)
	if !pool.Exists() || r.Position >= pool.Size() && !r.InService {
		return false
	}
	out, is := pool.Config.OutAt(r.Position)
	if r.InService {
		return is
	}
	return !is || out != r.Out
}
