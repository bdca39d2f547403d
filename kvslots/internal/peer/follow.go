package peer

import (
	"cmp"
	"iter"
	"maps"
	"slices"

	"github.com/kvslots/kvslots/kvslots/internal/entry"
)

// follow is a call of Follow: it is answered when its lease has ended.
type follow struct {
	call        *call
	pool, lease entry.Hash
}

func (r Follow) begin(p *Peer, c *call) {
	p.timers.stop(&c.limit)
	f := &follow{c, r.Pool, r.Lease}
	put(&p.follows, r.Lease, append(p.follows[r.Lease], f))
	c.reload = f.look
	c.quit = func(why error) {
		drop(p.follows, r.Lease, f)
		c.answer(Answer{Err: why})
	}
	if p.watch.mode != live || f.over() {
		f.look()
	}
}

// look answers the call if the lease has ended, in an exact view that is as new as
// now. The lease was in the view once, and a lease that has ended does not come back.
func (f *follow) look() {
	f.call.p.reads.whenCurrent(f.call, func() {
		if f.over() {
			f.call.end(nil)
		}
	})
}

func (f *follow) over() bool { return f.call.p.view.Pool(f.pool).Lease(f.lease, 0) == nil }

// holder is a lease and the session that holds it.
type holder struct{ lease, session entry.Hash }

// holderBefore returns the holder of a slot before an entry of the slot is applied.
func (p *Peer) holderBefore(e *entry.Entry) (h holder) {
	if e.Key.Kind == entry.Slot {
		if s := p.view.Pool(e.Key.Pool).Slot(e.Key.N); s != nil && s.Taken {
			h = holder{s.Value.Lease, s.Value.Session}
		}
	}
	return h
}

// noteHolder handles what an applied entry changes for the calls about leases.
func (p *Peer) noteHolder(e *entry.Entry, before holder) {
	if w := p.writes.authored[e.Author]; w != nil {
		w.shown = e.Revision
	}
	switch e.Key.Kind {
	case entry.Slot:
		ps := p.pools.byID[e.Key.Pool]
		if ps != nil {
			ps.changed = append(ps.changed, e.Key.N)
			if !before.session.IsZero() {
				ps.enqueuedChanged(before.session)
			}
			if !e.Slot.Session.IsZero() && e.Slot.Session != before.session {
				ps.enqueuedChanged(e.Slot.Session)
			}
		}
		if len(p.follows) > 0 && !before.lease.IsZero() && before.lease != e.Slot.Lease {
			p.tellFollows(slices.Values([][]*follow{p.follows[before.lease]}), e.Key.Pool)
		}
	case entry.Config:
		p.tellFollows(maps.Values(p.follows), e.Key.Pool)
	case entry.Session:
		if e.Marker {
			p.tellFollows(maps.Values(p.follows), entry.Hash{})
		}
	}
}

// tellFollows answers the follows whose leases have ended, in the order of their calls.
// A zero pool means all pools.
func (p *Peer) tellFollows(lists iter.Seq[[]*follow], pool entry.Hash) {
	if p.watch.mode != live {
		return
	}
	var over []*follow
	for list := range lists {
		for _, f := range list {
			if (pool.IsZero() || f.pool == pool) && f.over() {
				over = append(over, f)
			}
		}
	}
	slices.SortFunc(over, func(x, y *follow) int { return cmp.Compare(x.call.id, y.call.id) })
	for _, f := range over {
		f.call.end(nil)
	}
}
