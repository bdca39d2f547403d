package rules

import "math"

// InFlight is what a peer has written to one pool and not seen in its view yet.
type InFlight struct {
	Claims  map[int]uint64 // claims by position, with the place of the ticket each one names, or 0
	Joining int            // tickets
	Purges  map[int]uint64 // purges of slots by position, with the revision each one ends
}

// Full reports whether there is no permit left at all.
func (p *Pool) Full() bool { return p.InUse() >= p.Count() }

// Choose says which position a borrower may claim. The k-th ticket of the line,
// counted from 0, may claim when more than k permits are free, and takes the
// (k+1)-th lowest free position: so one claim is made for one grant, and no ticket
// waits for another's claim. t is the borrower's ticket; nil stands for one that
// has just come, behind everybody in the line. What the peer has in flight counts
// as if it had happened, so that one peer can serve several in a row without
// waiting for each.
func (p *Pool) Choose(t *Ticket, own *InFlight) (position int, ok bool) {
	free := p.Count() - p.InUse()
	for i := range own.Claims {
		if !p.live.has(i) {
			free--
		}
	}
	if free <= 0 {
		return 0, false
	}
	place, before := uint64(math.MaxUint64), own.Joining
	if t != nil {
		place, before = t.Place, 0
	}
	before += p.line.count(place, free-before, func(o *Ticket) bool { return o.waits() && !own.claims(o.Place) })
	if before >= free {
		return 0, false
	}
	for position = p.live.nextFree(0); position < p.Count(); position = p.live.nextFree(position + 1) {
		if _, busy := own.Claims[position]; busy {
			continue
		}
		if before == 0 {
			return position, true
		}
		before--
	}
	return 0, false
}

// claims reports whether the peer has claimed for the ticket of that place.
func (f *InFlight) claims(place uint64) bool {
	for _, t := range f.Claims {
		if t == place {
			return true
		}
	}
	return false
}

// PurgesBelow reports whether the peer is purging a position lower than the given
// one. A claim sent now would find that position free, and so not be the lowest.
func (f *InFlight) PurgesBelow(position int) bool {
	for i := range f.Purges {
		if i < position {
			return true
		}
	}
	return false
}
