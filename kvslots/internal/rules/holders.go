package rules

import "github.com/kvslots/kvslots/kvslots/internal/entry"

// holders counts the names of locks and semaphores that each holder uses: those of which it
// has a taken slot or a ticket, or was the last to take something out of service. A holder is a client session that is alive, or an origin:
// that of the client sessions, or the one that a slot or a ticket without a session names.
type holders struct {
	entries map[holding]int // slots, tickets and configurations of a holder in a pool
	names   tally
}

type holding struct {
	holder entry.Hash
	pool   *Pool
}

func newHolders() holders {
	return holders{entries: map[holding]int{}, names: tally{}}
}

// NamesOf returns the number of names that a holder uses.
func (h *holders) NamesOf(holder entry.Hash) int { return h.names[holder] }

// Uses reports whether a holder uses a name. pool may be nil.
func (h *holders) Uses(holder entry.Hash, pool *Pool) bool {
	return h.entries[holding{holder, pool}] > 0
}

// outHolder returns the origin that uses a name since something of it is out of service; zero: none.
func (p *Pool) outHolder() (origin entry.Hash) {
	if cfg := p.inForce(); cfg.Named() {
		origin = cfg.OutOrigin
	}
	return origin
}

// hold adds n to the entries of a holder in a pool.
func (h *holders) hold(holder entry.Hash, pool *Pool, n int) {
	if holder.IsZero() || n == 0 {
		return
	}
	key := holding{holder, pool}
	before := h.entries[key]
	h.entries[key] = before + n
	switch {
	case before == 0:
		h.names.add(holder, 1)
	case before+n == 0:
		delete(h.entries, key)
		h.names.add(holder, -1)
	}
}

// holdBy adds n to the entries of a client session that is alive, and of its origin.
func (h *holders) holdBy(s *Session, pool *Pool, n int) {
	if s.isClient() {
		h.hold(s.ID, pool, n)
		h.hold(s.Value.Origin, pool, n)
	}
}

// holdAll adds n to the entries of a session for each slot and ticket that it has.
func (h *holders) holdAll(s *Session, n int) {
	for _, slot := range s.Slots {
		h.holdBy(s, slot.Pool, n)
	}
	for _, t := range s.Tickets {
		if t.session == s {
			h.holdBy(s, t.Pool, n)
		}
	}
}
