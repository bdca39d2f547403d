package peer

import (
	"github.com/kvslots/kvslots/kvslots/internal/entry"
	"github.com/kvslots/kvslots/kvslots/internal/rules"
)

func (r Return) begin(p *Peer, c *call) {
	c.useSession(r.Session)
	c.effect = true
	r.Held.returnLease(c)
}

// returnLease purges the slot of a lease. If the purge is written, the slot had not
// changed, but its pool may have been deleted before, or its session may have ended:
// returned checks that when the view has reached the purge.
func (h *Held) returnLease(c *call) {
	h.withLease(c, func(s *rules.Slot) {
		value, granted := s.Value, s.Granted
		m := c.p.purge(rules.SlotKey(h.Pool, s.Position), s.Revision)
		m.Served, m.Owner = value.Ticket, ownerHash(value.Owner)
		c.putOnce(m, func(revision uint64) {
			c.p.reads.whenExactAt(c, revision, func() { h.returned(c, value, granted, revision) })
		}, func() { h.returnLease(c) })
	}, func(err error) {
		switch {
		case c.mayBeWritten && (err == ErrNotHeld || err == ErrNoPool):
			err = ErrUnavailable // an earlier purge of this call may have returned it
		case err == ErrNotHeld:
			err = nil
		}
		c.answer(Answer{Err: err})
	})
}

func (h *Held) returned(c *call, value entry.SlotValue, granted Instant, revision uint64) {
	pool := c.p.view.Pool(h.Pool)
	had, known := false, true
	if pool != nil && !c.p.view.EndedBefore(value.Session, revision) {
		had, known = pool.Had(value.Generation, revision)
	}
	if had {
		c.p.counters.Leased.add(c.p.now.Sub(granted))
		c.answer(Answer{Returned: true})
		return
	}
	c.mayBeWritten = !known
	h.returnLease(c)
}
