package peer

import "github.com/kvslots/kvslots/kvslots/internal/rules"

// reviewTerms decides about a borrow whose name is open under other terms, in a
// live view as new as the borrow. It closes an idle name once: it tries again only
// while the configuration is unchanged, since the closing may not have been written.
func (n *names) reviewTerms(b *borrow, pool *rules.Pool) {
	ps := b.pool
	latest, _ := n.view().Latest(rules.ConfigKey(ps.id))
	if b.refuseBy == 0 { // counted from here, since the view may have been late until now
		b.refuseBy = n.now().Add(refuseGrace)
	}
	switch {
	case n.setsConfig(ps.id):
		ps.markLater()
	case pool.InDoubt(n.now()) && n.now() < b.refuseBy:
		ps.markLater()
	case pool.Busy() && pool.Closing():
		n.restore(pool)
	case pool.Busy() && b.anyLimit && b.joins() && pool.Terms().Asked() != 0 && b.terms.Asked() != 0:
		if b.mayJoin(pool) {
			b.join(pool)
		}
	case pool.Busy(), !pool.Closing() && b.closedAt != 0 && b.closedAt != latest:
		b.finish(Answer{Err: ErrLimitMismatch})
	case !ps.mayChoose() || !n.isPresent():
		ps.markLater()
	case !pool.Closing():
		b.closedAt = latest
		n.setClosing(pool, true)
	default:
		b.closedAt = latest
		if n.open(b, pool); b.phase == arrived {
			ps.markLater()
		}
	}
}

// setLimitOf gives a semaphore of which no slot is live the limit that the first ticket of its line asks
// for. It closes the semaphore before, so that its view shows all claims under the limit before.
func (n *names) setLimitOf(t *rules.Ticket) {
	pool := t.Pool
	switch {
	case n.setsConfig(pool.ID):
	case !pool.Closing():
		n.setClosing(pool, true)
	default:
		n.writeConfig(n.config(pool.ID, pool.Config.WithLimit(int(t.Value.Limit))))
	}
}
