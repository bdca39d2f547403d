package rules

// InFlight is what a peer has written to one pool and not seen in its view yet.
type InFlight struct {
	Claims  map[int]uint64 // claims by position, with the ticket each one names, or 0
	Joining int            // tickets
	Purges  map[int]uint64 // purges of slots by position, with the revision each one ends
}

// Full tells whether there is no permit left at all.
func (p *Pool) Full() bool { return p.InUse() >= p.Count() }

// Choose says which position a borrower may claim: the lowest free one, if a
// permit is free and nobody waits before it in the line. t is the borrower's
// ticket; nil stands for one who has just come, behind everybody in the line.
// What the peer has in flight counts as if it had happened, so that one peer
// can serve several in a row without waiting for each. count is the number of
// slots that the borrower reckons with: a named pool that is not in use has none
// of its own.
func (p *Pool) Choose(t *Ticket, own *InFlight, count int) (position int, ok bool) {
	free := count - p.InUse()
	for i := range own.Claims {
		if !p.live.has(i) {
			free--
		}
	}
	if free <= 0 || p.Disputed() || p.waitsBefore(t, own) {
		return 0, false
	}
	for position = p.live.nextFree(0); position < count; position = p.live.nextFree(position + 1) {
		if _, busy := own.Claims[position]; !busy {
			return position, true
		}
	}
	return 0, false
}

// waitsBefore tells whether anybody waits before the ticket.
func (p *Pool) waitsBefore(t *Ticket, own *InFlight) bool {
	if t == nil && own.Joining > 0 {
		return true
	}
	place := ^uint64(0)
	if t != nil {
		place = t.Revision
	}
	if !p.configured() && p.hindered(p.config.Incarnation, place, nil) {
		return true // the claim would be void
	}
	for o := p.line.first; o != nil && o != t; o = o.next {
		if o.waits() && !own.claims(o.Revision) {
			return true
		}
	}
	return false
}

func (f *InFlight) claims(ticket uint64) bool {
	for _, t := range f.Claims {
		if t == ticket {
			return true
		}
	}
	return false
}

// PurgesBelow tells whether the peer is purging a position lower than the given
// one. A claim sent now would find that position free, and so not be the lowest.
func (f *InFlight) PurgesBelow(position int) bool {
	for i := range f.Purges {
		if i < position {
			return true
		}
	}
	return false
}
