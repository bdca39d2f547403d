package peer

import (
	"iter"

	"github.com/kvslots/kvslots/kvslots/internal/entry"
	"github.com/kvslots/kvslots/kvslots/internal/rules"
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

// look answers the call if an exact view as new as now does not show the lease. tellFollow
// needs no such view: the lease was in the view, and does not come back.
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

// noteSlot handles the applied entry of a slot.
func (p *Peer) noteSlot(e *entry.Entry, before holder) {
	if end, known := p.watch.ends[e.Slot.Lease]; known {
		s := p.view.Pool(e.Key.Pool).Slot(e.Key.N)
		p.view.EndAt(s, e.Revision, max(s.Ends, end))
	}
	if ps := p.pools.byID[e.Key.Pool]; ps != nil {
		ps.changed = append(ps.changed, e.Key.N)
		ps.enqueuedChanged(before.session)
		if e.Slot.Session != before.session {
			ps.enqueuedChanged(e.Slot.Session)
		}
	}
	if before.lease != e.Slot.Lease {
		p.tellFollow(before.lease)
	}
}

// tellFollows answers the calls that follow one of the leases of slots, if that has ended.
func (p *Peer) tellFollows(slots iter.Seq[*rules.Slot]) {
	if len(p.follows) > 0 {
		for s := range slots {
			p.tellFollow(s.Value.Lease)
		}
	}
}

func (p *Peer) tellFollow(lease entry.Hash) {
	if p.watch.mode != live {
		return
	}
	for _, f := range p.follows[lease] {
		if f.over() {
			f.call.end(nil)
		}
	}
}
