package peer

import (
	"github.com/kvslots/kvslots/kvslots/internal/entry"
	"github.com/kvslots/kvslots/kvslots/internal/rules"
)

// find returns the live slot of a lease in the view, or why there is none.
func (h *Held) find(p *leases) (*rules.Slot, error) {
	pool := p.view().Pool(h.Pool)
	switch {
	case !h.Session.IsZero() && !p.view().Alive(h.Session):
		return nil, ErrSessionGone
	case !pool.Exists() && !h.Named:
		return nil, ErrNoPool
	}
	s := pool.Lease(h.Lease, h.Fence)
	if s == nil || h.Named && pool.Terms().Lock != h.Lock {
		return nil, p.endings.errorOf(h.Lease)
	}
	return s, nil
}

// withLease calls do with the slot of a lease, once its ticket is out of the line. If the
// view does not show the lease, withLease looks again when the view is live and as new as
// now, and calls gone with the reason if it does not show the lease then.
func (h *Held) withLease(p *leases, c *call, do func(*rules.Slot), gone func(error)) {
	if !c.isOpen() { // its write has had an outcome after its answer, ErrUnavailable
		return
	}
	p.decide(c, func(current bool) bool {
		s, err := h.find(p)
		switch {
		case err == nil:
			if p.outOfLine(c, s, func() { h.withLease(p, c, do, gone) }) {
				do(s)
			}
		case current:
			gone(err)
		}
		return err == nil || current
	})
}

// outOfLine reports whether the ticket that a live slot was claimed for has left the line, and
// otherwise calls again when it has. For a borrow's ticket it is enough that this peer has sent the
// purge: it repeats it until the ticket is gone, and no other peer claims for that ticket.
func (p *leases) outOfLine(c *call, s *rules.Slot, again func()) bool {
	t := leftTicket(s)
	if t == nil || !t.Value.Enqueued() && p.isPurging(t.Key, t.Revision) {
		return true
	}
	p.putFor(c, p.purge(t.Key, t.Revision), func(*write) { again() }, again)
	return false
}

// leftTicket returns the ticket that a live slot was claimed for, if it is still in the
// line, or nil. The slot may only be purged when the ticket has left the line, since the ticket
// would stand again.
func leftTicket(s *rules.Slot) *rules.Ticket { return s.Pool.Ticket(s.Value.Ticket) }

// leased returns the function that counts the end of a lease, which a purge with a cause has
// ended.
func (p *leases) leased(s *rules.Slot, cause entry.Cause) func() {
	granted, held := s.Granted, p.count().Leased.of(&s.Value)
	var count *uint64
	switch cause {
	case entry.Expired:
		count = p.count().Expiries.of(&s.Value)
	case entry.Evicted:
		count = p.count().Evictions.of(&s.Value)
	}
	return func() {
		held.add(p.now().Sub(granted))
		if count != nil {
			*count++
		}
	}
}

// expired returns the function that counts the end of a lease whose time was over, once
// its purge has an outcome.
func (p *leases) expired(s *rules.Slot) func(*write) {
	ended := p.leased(s, entry.Expired)
	return func(w *write) {
		if w.written() {
			ended()
		}
	}
}
