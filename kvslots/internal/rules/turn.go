package rules

import "math"

func (p *Pool) Full() bool { return p.free() <= 0 }

// Choose returns the position that a borrow may claim. The k-th ticket of the line,
// counted from 0, may claim when more than k permits are free, and claims the
// (k+1)-th lowest free position: so each grant takes one claim, and no ticket waits
// for the claim of another. t is the borrow's ticket; with nil, the borrow comes
// behind the whole line. The peer's writes in flight count as written, so that a
// peer can serve several borrows without waiting for each.
func (p *Pool) Choose(t *Ticket, own *InFlight) (position int, ok bool) {
	free, before := p.rank(t, own)
	if before >= free {
		return 0, false
	}
	for position = p.nextFree(0); position < p.Count(); position = p.nextFree(position + 1) {
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

// rank returns the number of free permits, and the number of tickets that wait before the
// borrow, at most as many as there are permits.
func (p *Pool) rank(t *Ticket, own *InFlight) (free, before int) {
	free = p.free()
	for i := range own.Claims {
		if _, out := p.inForce().OutAt(i); !p.live.has(i) && !(out && i < p.Count()) { // otherwise it is counted
			free--
		}
	}
	place, before := uint64(math.MaxUint64), own.Joining
	if t != nil {
		place, before = t.Place, 0
	}
	return free, before + p.ahead(place, free-before, own)
}
