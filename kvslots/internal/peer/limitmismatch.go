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
