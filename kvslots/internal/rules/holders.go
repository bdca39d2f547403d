package rules

import "github.com/kvslots/kvslots/kvslots/internal/entry"

// holders counts the names of locks and semaphores that each holder uses: those of which it
// has a taken slot or a ticket, or was the last to take something out of service. A holder is a client session that is alive, or an origin:
// that of the client sessions, or the one that a slot or a ticket without a session names.
type holders struct {
	entries map[holding]int // slots, tickets and configurations of a holder in a pool
	names   tally
}

type holding struct{ holder, pool entry.Hash }

func newHolders() holders {
	return holders{entries: map[holding]int{}, names: tally{}}
}

func (h *holders) NamesOf(holder entry.Hash) int { return h.names[holder] }

func (h *holders) hold(holder, pool entry.Hash, n int) {
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
