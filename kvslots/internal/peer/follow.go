package peer

import (
	"github.com/kvslots/kvslots/kvslots/internal/entry"
)

// follow is a call that is answered when a lease has ended.
type follow struct {
	call *call
	pool entry.Hash
}

// followers are the calls that wait for a lease to end.
type followers struct {
	p       *Peer
	byLease map[entry.Hash][]*follow
}

func (r Follow) begin(p *Peer, c *call) {
	p.timers.stop(&c.limit)
	f := &follow{c, r.Pool}
	p.follows.byLease[r.Lease] = append(p.follows.byLease[r.Lease], f)
	c.quit = func(why error) {
		p.follows.drop(r.Lease, f)
		c.answer(Answer{Err: why})
	}
	if p.watch.mode != live || p.world.Pool(r.Pool).Lease(r.Lease) == nil {
		p.ask(c, func() { p.follows.tell(r.Lease, r.Pool) })
	}
}

func (fs *followers) drop(lease entry.Hash, f *follow) {
	if left := without(fs.byLease[lease], f); len(left) > 0 {
		fs.byLease[lease] = left
	} else {
		delete(fs.byLease, lease)
	}
}

// tell answers the calls that follow a lease which the view shows no more. A
// lease that is followed was in the view, and one that is gone does not come back.
func (fs *followers) tell(lease, pool entry.Hash) {
	if fs.p.watch.mode != live || fs.p.world.Pool(pool).Lease(lease) != nil {
		return
	}
	for _, f := range fs.byLease[lease] {
		if f.pool == pool {
			f.call.quit = nil
			fs.drop(lease, f)
			f.call.answer(Answer{})
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
	if w := p.writes.authored[e.Author]; w != nil {
		w.shown = e.Revision
	}
	switch e.Key.Kind {
	case entry.Slot:
		ps := p.pools[e.Key.Pool]
		if ps != nil {
			ps.changed = append(ps.changed, e.Key.N)
			if !before.session.IsZero() {
				ps.enqueuedChanged(before.session)
			}
			if !e.Slot.Session.IsZero() && e.Slot.Session != before.session {
				ps.enqueuedChanged(e.Slot.Session)
			}
		}
		if len(p.follows.byLease) > 0 && !before.lease.IsZero() && before.lease != e.Slot.Lease {
			p.follows.tell(before.lease, e.Key.Pool)
		}
	case entry.Config, entry.Session:
		p.follows.tellAll(e)
	}
}

// tellAll is for an entry that may end many leases at once.
func (fs *followers) tellAll(e *entry.Entry) {
	if len(fs.byLease) == 0 || fs.p.watch.mode != live || e.Key.Kind == entry.Session && !e.Marker {
		return
	}
	var gone []*follow
	for lease, list := range fs.byLease {
		for _, f := range list {
			at := fs.p.world.Pool(f.pool)
			if (e.Key.Kind == entry.Session || e.Key.Pool == f.pool) && (at == nil || at.Lease(lease) == nil) {
				gone = append(gone, f)
			}
		}
	}
	for _, f := range sortedFollows(gone) {
		f.call.end(nil)
	}
}

// lookAgain looks at all leases that are followed, in a view that was built anew.
func (fs *followers) lookAgain() {
	if len(fs.byLease) == 0 {
		return
	}
	var all []*follow
	leases := map[*follow]entry.Hash{}
	for lease, list := range fs.byLease {
		for _, f := range list {
			all, leases[f] = append(all, f), lease
		}
	}
	for _, f := range sortedFollows(all) {
		fs.p.ask(f.call, func() { fs.tell(leases[f], f.pool) })
	}
}
