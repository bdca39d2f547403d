package peer

import (
	"github.com/kvslots/kvslots/kvslots/internal/entry"
)

// follow is a call that is answered when a lease has ended.
type follow struct {
	call *call
	pool entry.Hash
}

func (r Follow) begin(p *Peer, c *call) {
	f := &follow{c, r.Pool}
	p.follows[r.Lease] = append(p.follows[r.Lease], f)
	c.quit = func(why error) {
		p.unfollow(r.Lease, f)
		p.answer(c, Answer{Err: why})
	}
	if p.watch.mode != live || p.world.Pool(r.Pool).Lease(r.Lease) == nil {
		p.ask(c, func() { p.tellFollowers(r.Lease, r.Pool) })
	}
}

func (p *Peer) unfollow(lease entry.Hash, f *follow) {
	if left := without(p.follows[lease], f); len(left) > 0 {
		p.follows[lease] = left
	} else {
		delete(p.follows, lease)
	}
}

// tellFollowers answers the calls that follow a lease which the view shows no more. A
// lease that is followed was in the view, and one that is gone does not come back.
func (p *Peer) tellFollowers(lease, pool entry.Hash) {
	if p.watch.mode != live || p.world.Pool(pool).Lease(lease) != nil {
		return
	}
	for _, f := range p.follows[lease] {
		if f.pool == pool {
			f.call.quit = nil
			p.unfollow(lease, f)
			p.answer(f.call, Answer{})
		}
	}
}

// holder is a lease that an entry may end, and the session that holds it.
type holder struct{ lease, session entry.Hash }

// holderBefore is what held a slot before an entry of it.
func (p *Peer) holderBefore(e *entry.Entry) (h holder) {
	if e.Key.Kind == entry.Slot {
		if s := p.world.Pool(e.Key.Pool).Slot(e.Key.N); s != nil && s.Taken {
			h = holder{s.Value.Lease, s.Value.Session}
		}
	}
	return h
}

// holderSeen takes note of what has become of leases with an entry.
func (p *Peer) holderSeen(e *entry.Entry, before holder) {
	if _, pending := p.authored[e.Author]; pending {
		p.authored[e.Author] = e.Revision
	}
	switch e.Key.Kind {
	case entry.Slot:
		ps := p.pools[e.Key.Pool]
		if ps != nil {
			ps.changed = append(ps.changed, e.Key.N)
			if !before.session.IsZero() {
				p.enqueuedChanged(ps, before.session)
			}
			if !e.Slot.Session.IsZero() && e.Slot.Session != before.session {
				p.enqueuedChanged(ps, e.Slot.Session)
			}
		}
		if len(p.follows) > 0 && !before.lease.IsZero() && before.lease != e.Slot.Lease {
			p.tellFollowers(before.lease, e.Key.Pool)
		}
	case entry.Config, entry.Session:
		p.tellAllFollowers(e)
	}
}

// tellAllFollowers is for an entry that may end many leases at once.
func (p *Peer) tellAllFollowers(e *entry.Entry) {
	if len(p.follows) == 0 || p.watch.mode != live || e.Key.Kind == entry.Session && !e.Marker {
		return
	}
	var gone []*follow
	for lease, list := range p.follows {
		for _, f := range list {
			at := p.world.Pool(f.pool)
			if (e.Key.Kind == entry.Session || e.Key.Pool == f.pool) && (at == nil || at.Lease(lease) == nil) {
				gone = append(gone, f)
			}
		}
	}
	for _, f := range sortedFollows(gone) {
		p.quit(f.call, nil)
	}
}

// refollow looks at all leases that are followed, in a view that was built anew.
func (p *Peer) refollow() {
	if len(p.follows) == 0 {
		return
	}
	var all []*follow
	leases := map[*follow]entry.Hash{}
	for lease, list := range p.follows {
		for _, f := range list {
			all, leases[f] = append(all, f), lease
		}
	}
	for _, f := range sortedFollows(all) {
		p.ask(f.call, func() { p.tellFollowers(leases[f], f.pool) })
	}
}
