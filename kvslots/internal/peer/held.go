package peer

import "github.com/kvslots/kvslots/kvslots/internal/rules"

// find returns the live slot of a lease in the view, or why there is none.
func (h *Held) find(p *Peer) (*rules.Slot, error) {
	pool := p.view.Pool(h.Pool)
	switch {
	case !h.Session.IsZero() && !p.view.Alive(h.Session):
		return nil, ErrSessionGone
	case !pool.Exists():
		return nil, ErrNoPool
	}
	s := pool.Lease(h.Lease, h.Fence)
	if s == nil || h.Named && pool.Terms().Lock != h.Lock {
		return nil, ErrNotHeld
	}
	return s, nil
}

// withLease calls do with the slot of a lease, once its ticket is out of the line. If the
// view does not show the lease, withLease looks again when the view is exact and as new as
// now, and calls gone with the reason if it does not show the lease then.
func (h *Held) withLease(c *call, do func(*rules.Slot), gone func(error)) {
	found := func(s *rules.Slot) {
		t := leftTicket(s)
		if t == nil {
			do(s)
			return
		}
		again := func() { h.withLease(c, do, gone) }
		c.put(c.p.purge(t.Key, t.Revision), func(uint64) { again() }, again)
	}
	if s, err := h.find(c.p); err == nil && c.p.watch.mode == live {
		found(s)
		return
	}
	c.p.reads.whenCurrent(c, func() {
		if s, err := h.find(c.p); err == nil {
			found(s)
		} else {
			gone(err)
		}
	})
}
