package peer

import "github.com/kvslots/kvslots/kvslots/internal/rules"

// find returns the live slot of a lease in the view, or why there is none.
func (h *Held) find(k *kernel) (*rules.Slot, error) {
	pool := k.view.Pool(h.Pool)
	switch {
	case !h.Session.IsZero() && !k.view.Alive(h.Session):
		return nil, ErrSessionGone
	case !pool.Exists():
		return nil, ErrNoPool
	}
	s := pool.Lease(h.Lease, h.Fence)
	if s == nil || h.Revision != 0 && h.Revision != s.Revision || h.Named && pool.Terms().Lock != h.Lock {
		return nil, ErrNotHeld
	}
	return s, nil
}

// withLease calls do with the slot of a lease, once its ticket is out of the line. If the
// view does not show the lease, withLease looks again when the view is live and as new as
// now, and calls gone with the reason if it does not show the lease then.
func (h *Held) withLease(c *call, do func(*rules.Slot), gone func(error)) {
	if !c.isOpen() { // its write has had an outcome after its answer, ErrUnavailable
		return
	}
	c.decide(func(current bool) bool {
		s, err := h.find(c.k)
		switch {
		case err == nil:
			if c.outOfLine(s, func() { h.withLease(c, do, gone) }) {
				do(s)
			}
		case current:
			gone(err)
		}
		return err == nil
	})
}

// outOfLine reports whether the ticket that a live slot was claimed for has left the line, and
// otherwise calls again when it has. For a borrow's ticket it is enough that this peer has sent the
// purge: it repeats it until the ticket is gone, and no other peer claims for that ticket.
func (c *call) outOfLine(s *rules.Slot, again func()) bool {
	t := leftTicket(s)
	if t == nil || !t.Value.Enqueued() && c.k.writes.purges(t.Key, t.Revision) {
		return true
	}
	c.put(c.k.purge(t.Key, t.Revision), func(resolution) { again() }, again)
	return false
}

// leftTicket returns the ticket that a live slot was claimed for, if it is still in the
// line, or nil. The slot may only be purged when the ticket has left the line, since the ticket
// would stand again.
func leftTicket(s *rules.Slot) *rules.Ticket { return s.Pool.Ticket(s.Value.Ticket) }
