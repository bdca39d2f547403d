package rules

// InFlight is what a peer has written to one pool and not seen in its view yet.
type InFlight struct {
	Claims  map[int]uint64 // claims by position, with the ticket each one names, or 0
	Joining int            // tickets
	Purges  map[int]uint64 // purges of slots by position, with the revision each one ends
}

// Full tells whether there is no permit left at all.
func (p *Pool) Full() bool { return p.InUse() >= p.Count() }

// Choose says which position a borrower may claim: the k-th in the line (from
// 0) may claim when more than k permits are free, and takes the (k+1)-th lowest
// free position. t is the borrower's ticket; nil stands for one who has just
// come, behind everybody in the line. What the peer has in flight counts as if
// it had happened.
func (p *Pool) Choose(t *Ticket, own *InFlight) (position int, ok bool) {
	free := p.Count() - p.InUse()
	for i := range own.Claims {
		if !p.live.has(i) {
			free--
		}
	}
	k := p.before(t, own, free)
	if free <= k {
		return 0, false
	}
	for position = 0; ; position++ {
		position = p.live.nextFree(position)
		if position >= p.Count() {
			return 0, false
		}
		if _, busy := own.Claims[position]; busy {
			continue
		}
		if k--; k < 0 {
			return position, true
		}
	}
}

// before counts who stands before the ticket, up to atMost.
func (p *Pool) before(t *Ticket, own *InFlight, atMost int) int {
	k := 0
	if t == nil {
		k = own.Joining
	}
	for o := p.line.first; o != nil && o != t && k < atMost; o = o.next {
		if o.waits() && !own.claims(o.Revision) {
			k++
		}
	}
	return k
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
