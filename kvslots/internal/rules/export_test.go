package rules

// Pools returns the number of pools that the view knows, and of those that have ended.
func (v *View) Pools() int { return len(v.pools) + len(v.ended) }

// IdleSince returns since when an idle pool has been idle; ok is false if it is not idle,
// is being closed, or is not tracked.
func (p *Pool) IdleSince() (at Instant, ok bool) { return p.idleSince, p.idleIn != nil }

// ConfigRevision returns the revision of the pool's configuration, or of its marker.
func (p *Pool) ConfigRevision() uint64 { return p.cfg.Revision }

// Served reports whether the ticket has left the line for good.
func (t *Ticket) Served() bool { return !t.lined }

// Claim returns the live slot that names the ticket, or nil.
func (t *Ticket) Claim() *Slot {
	if t.Claimed() {
		return t.claim
	}
	return nil
}

// TurnSince returns since when it has been the ticket's turn; ok is false while
// it is not.
func (t *Ticket) TurnSince() (at Instant, ok bool) { return t.turnSince, t.turnSince != 0 }
