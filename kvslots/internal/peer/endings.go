package peer

import "github.com/kvslots/kvslots/kvslots/internal/entry"

const maxEndings = 4096

// endings remembers why the last leases have ended that their holders have not returned.
type endings struct {
	causes map[entry.Hash]entry.Cause
	leases []entry.Hash // a ring buffer
	next   int          // the oldest of leases, once it is full
}

func (p *leases) noteEnding(lease entry.Hash, cause entry.Cause) { p.endings.note(lease, cause) }

func (e *endings) note(lease entry.Hash, cause entry.Cause) {
	if lease.IsZero() || cause != entry.Expired && cause != entry.Evicted {
		return
	}
	switch _, known := e.causes[lease]; {
	case known:
		return
	case len(e.leases) < maxEndings:
		e.leases = append(e.leases, lease)
	default:
		delete(e.causes, e.leases[e.next])
		e.leases[e.next] = lease
		e.next = (e.next + 1) % maxEndings
	}
	put(&e.causes, lease, cause)
}

// errorOf returns the error for a lease that is not held: ErrNotHeld, or what more is known.
func (e *endings) errorOf(lease entry.Hash) error {
	switch e.causes[lease] {
	case entry.Expired:
		return ErrExpired
	case entry.Evicted:
		return ErrEvicted
	}
	return ErrNotHeld
}
