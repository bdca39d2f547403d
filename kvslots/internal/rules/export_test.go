package rules

// What only tests look at.

// Pools is the number of pools of which anything is known.
func (w *World) Pools() int { return len(w.pools) }

// ConfigRevision is the revision of the pool's configuration, or of its marker.
func (p *Pool) ConfigRevision() uint64 { return p.cfg.Revision }

// Served reports whether the ticket has left the line for good.
func (t *Ticket) Served() bool { return !t.lined }

// Claim is the live slot that names the ticket, or nil.
func (t *Ticket) Claim() *Slot {
	if t.Claimed() {
		return t.claim
	}
	return nil
}
